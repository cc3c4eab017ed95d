"""How many examples Hypothesis tries: few in the suite, many in a campaign (``FUZZ_PROFILE=long``)."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, settings

LONG = os.environ.get("FUZZ_PROFILE") == "long"
_COMMON: dict[str, Any] = {
    "deadline": timedelta(seconds=20),  # no hang, also on a busy machine
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
}
settings.register_profile("ci", max_examples=40, derandomize=True, database=None, **_COMMON)
settings.register_profile("long", max_examples=2_000, print_blob=True, **_COMMON)


def fuzzed(share: float = 1.0) -> settings:
    """Settings of a test that gets this share of the profile's examples."""
    profile = settings.get_profile("long" if LONG else "ci")
    # Shrinking a text of thousands of characters takes minutes; in the suite, any failing example will do.
    phases = tuple(Phase) if LONG else (Phase.explicit, Phase.reuse, Phase.generate)
    return settings(profile, max_examples=max(1, int(profile.max_examples * share)), phases=phases)
