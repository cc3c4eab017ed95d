"""The conda environment and the locks mirror pyproject's pins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture
def metadata(project: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return loaded


def locked(path: Path) -> set[str]:
    return set(re.findall(r"^([a-z0-9.\-]+==[^ ;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def plain(pins: list[str]) -> set[str]:
    """Pins without extras and markers."""
    return {re.sub(r"\[.*?\]|;.*", "", pin).strip() for pin in pins}


def test_conda_environment_has_the_same_pins(project: Path, metadata: dict[str, Any]) -> None:
    environment = yaml.safe_load((project / "envs" / "lmev2.yaml").read_text(encoding="utf-8"))
    pins = next(item["pip"] for item in environment["dependencies"] if isinstance(item, dict))
    assert sorted(pins) == sorted(metadata["dependencies"])
    assert f"python {metadata['requires-python']}" in environment["dependencies"]


def test_locks_hold_every_pin_with_hashes(project: Path, metadata: dict[str, Any]) -> None:
    run = locked(project / "envs" / "requirements.lock")
    dev = locked(project / "envs" / "requirements-dev.lock")
    assert plain(metadata["dependencies"]) <= run
    assert run | set(metadata["optional-dependencies"]["dev"]) <= dev
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-gpu.lock", "uv.lock", "build.lock"):
        text = (project / "envs" / name).read_text(encoding="utf-8")
        assert text.count("==") <= text.count("--hash=sha256:"), name
        assert "://" not in text, name


def test_the_extra_fits_into_the_environment(project: Path, metadata: dict[str, Any]) -> None:
    """PyTorch comes with the extra only, and nothing that the other locks hold has another version in its lock."""
    run = locked(project / "envs" / "requirements.lock")
    dev = locked(project / "envs" / "requirements-dev.lock")
    extra = locked(project / "envs" / "requirements-gpu.lock")
    pins = set(metadata["optional-dependencies"]["gpu"])
    assert run | pins <= extra
    assert not {pin.split("==")[0] for pin in dev} & {pin.split("==")[0] for pin in pins}
    known = {pin.split("==")[0] for pin in dev}
    assert {pin for pin in extra if pin.split("==")[0] in known} <= dev
