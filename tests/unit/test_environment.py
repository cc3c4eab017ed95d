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


EXTRAS = ("gpu", "slurm")


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
    assert run | plain(metadata["optional-dependencies"]["dev"]) <= dev
    extras = [f"requirements-{name}.lock" for name in EXTRAS]
    for name in ("requirements.lock", "requirements-dev.lock", *extras, "uv.lock", "build.lock"):
        text = (project / "envs" / name).read_text(encoding="utf-8")
        assert text.count("==") <= text.count("--hash=sha256:"), name
        assert "://" not in text, name


@pytest.mark.parametrize("name", EXTRAS)
def test_extras_fit_into_the_environment(project: Path, metadata: dict[str, Any], name: str) -> None:
    """Nothing that the locks for runs and tests hold has another version in the lock of an extra."""
    run = locked(project / "envs" / "requirements.lock")
    dev = locked(project / "envs" / "requirements-dev.lock")
    extra = locked(project / "envs" / f"requirements-{name}.lock")
    assert run | set(metadata["optional-dependencies"][name]) <= extra
    known = {pin.split("==")[0] for pin in dev}
    assert {pin for pin in extra if pin.split("==")[0] in known} <= dev


def test_pytorch_comes_with_its_extra_only(project: Path, metadata: dict[str, Any]) -> None:
    dev = locked(project / "envs" / "requirements-dev.lock")
    pins = metadata["optional-dependencies"]["gpu"]
    assert not {pin.split("==")[0] for pin in dev} & {pin.split("==")[0] for pin in pins}


def test_packages_that_are_compiled_here_find_their_tools_pinned(project: Path) -> None:
    """An installation without network takes build tools from the same folder as everything else."""
    assert {"cmake", "ninja", "scikit-build-core", "setuptools"} <= {
        pin.split("==")[0] for pin in locked(project / "envs" / "build.lock")
    }
