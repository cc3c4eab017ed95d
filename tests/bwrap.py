"""Tests that need Bubblewrap: skipped, with the reason, where it is missing or may make no namespaces."""

from __future__ import annotations

import pytest

from lmev2.agent.isolation import working_bwrap
from lmev2.models.types import ModelSetupError


def _reason() -> str | None:
    try:
        working_bwrap()
    except ModelSetupError as error:
        return str(error)
    return None


_REASON = _reason()

needs_bwrap = pytest.mark.skipif(_REASON is not None, reason=f"needs Bubblewrap: {_REASON}")
