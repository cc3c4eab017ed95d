"""Paths and fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

PROJECT = Path(__file__).resolve().parents[1]
SHARED_DATA = PROJECT.parent / "shared" / "data"

# How long an example takes says more about what else the machine does than about the code; fuzz tests bound it themselves.
# The suite tries the same examples every time; `make fuzz` tries others.
settings.register_profile("undisturbed", deadline=None, derandomize=True, database=None)
settings.load_profile("undisturbed")

# Processes that tests start import the library as the tests do.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PROJECT / "src"), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's folder."""
    return PROJECT


@pytest.fixture(scope="session")
def realruns() -> Path:
    """A data root of real runs beside the project; it does not ship with it."""
    path = SHARED_DATA / "realruns"
    if not path.is_dir():
        pytest.skip("needs ../shared/data/realruns, which lies beside a development checkout only")
    return path


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Tests of halves of surrogate pairs print some, which cannot be sent from one process to another."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sendable(item) for item in value]
    return tuple(map(_sendable, value)) if isinstance(value, tuple) else value
