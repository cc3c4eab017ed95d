"""Pin the whole environment anew: locks with hashes from pyproject.toml, and the conda mirror of its pins."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ENVS = Path(__file__).resolve().parent
PROJECT = ENVS.parent
UV = Path(sys.executable).with_name("uv")
_CONDA_HEAD = "# Mirrors the pins of pyproject.toml (`make lock` writes it, a test compares them).\n"


def compile_lock(target: Path, *sources: str, extra: tuple[str, ...] = ()) -> None:
    """Resolve requirements for every platform and supported Python, with hashes and without index addresses."""
    command = [str(UV), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
    command += [
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--no-annotate",
        "--no-header",
        *extra,
        "-o",
        str(target),
    ]
    subprocess.run([*command, *sources], check=True, cwd=PROJECT)


def conda_environment(project: dict[str, object]) -> str:
    """The conda environment with the same pins; packages come from the Python index, as in the lock."""
    pins = sorted(project["dependencies"])  # type: ignore[call-overload]
    lines = [
        "name: lmev2",
        "channels:",
        "  - conda-forge",
        "dependencies:",
        "  - python >=3.11.4,<3.13",
        "  - pip",
        "  - pip:",
    ]
    return _CONDA_HEAD + "\n".join([*lines, *(f"      - {pin}" for pin in pins)]) + "\n"


def main() -> None:
    """Write all locks and the conda environment."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    compile_lock(ENVS / "requirements.lock", "pyproject.toml")
    compile_lock(ENVS / "requirements-dev.lock", "pyproject.toml", extra=("--extra", "dev"))
    # the extras' locks go into the same environment as the others, so they must not pin anything differently
    for name in ("gpu", "slurm"):
        compile_lock(
            ENVS / f"requirements-{name}.lock",
            "pyproject.toml",
            extra=("--extra", name, "--constraints", "envs/requirements-dev.lock"),
        )
    compile_lock(ENVS / "uv.lock", "envs/uv.in")
    compile_lock(ENVS / "build.lock", "envs/build.in")
    compile_lock(ENVS / "requirements-fuzz.lock", "envs/fuzz.in")
    compile_lock(ENVS / "requirements-audit.lock", "envs/audit.in")
    (ENVS / "lmev2.yaml").write_text(conda_environment(project), encoding="utf-8")


if __name__ == "__main__":
    main()
