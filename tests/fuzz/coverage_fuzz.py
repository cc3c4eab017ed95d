"""A coverage-guided fuzzer over one target: ``python tests/fuzz/coverage_fuzz.py TARGET CORPUS [libFuzzer options]``.

Run by ``fuzz_campaign.py`` in an environment that has atheris.
"""

from __future__ import annotations

import sys
import warnings

import atheris

warnings.simplefilter("ignore")
with atheris.instrument_imports(include=["lmev2", "json"]):
    from fuzz.fuzz_targets import TARGETS


def main() -> None:
    """Feed a target until libFuzzer's limits, or its first failure."""
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
