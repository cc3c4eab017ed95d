"""A fuzzing campaign: ``python tests/fuzz/fuzz_campaign.py --minutes 60 --atheris .venv-fuzz/bin/python``.

Half of the time goes to the coverage-guided fuzzer, the same to each target; the other half to the tests of this folder
with many examples, again and again with other seeds. One process at a time. What was found lies in the folder of
findings: inputs that a target failed on, and the output of tests that failed. The exit code says whether there is any.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

FUZZ = Path(__file__).resolve().parent
PROJECT = FUZZ.parents[1]
_RUNS = re.compile(r"stat::number_of_executed_units: *(\d+)")
_LEAST_SECONDS = 20


def environment() -> dict[str, str]:
    """The library and its dependencies, which the fuzzer's own environment has not."""
    paths = [PROJECT / "src", PROJECT / "tests", Path(sysconfig.get_paths()["purelib"])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONWARNINGS": "ignore"}


def guided(python: Path, target: str, seconds: int, folder: Path) -> tuple[int, list[Path]]:
    """Executions of a target, and the inputs that it failed on."""
    corpus, found = folder / "corpus" / target, folder / "findings" / target
    for each in (corpus, found):
        each.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    options = [
        f"-max_total_time={seconds}",
        "-timeout=20",
        "-rss_limit_mb=2500",
        "-max_len=4096",
        "-print_final_stats=1",
    ]
    done = subprocess.run(
        [str(python), str(FUZZ / "coverage_fuzz.py"), target, str(corpus), f"-artifact_prefix={found}/", *options],
        env=environment(), cwd=folder, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    counted = _RUNS.search(done.stderr)
    new = sorted(set(found.iterdir()) - before)
    if counted is None or new or done.returncode:
        (found / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8", errors="replace")
        new = new or [found / "output.txt"]
    return int(counted[1]) if counted else 0, new


def examples(seed: int, folder: Path) -> list[Path]:
    """One run of the tests with many examples; the output, where one failed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", str(FUZZ)],
        env={**environment(), "FUZZ_PROFILE": "long"}, cwd=PROJECT, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    if done.returncode == 0:
        return []
    file = folder / "findings" / f"tests_{seed}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(done.stdout + done.stderr, encoding="utf-8", errors="replace")
    return [file]


def main() -> int:
    """Fuzz for so many minutes; 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--atheris", type=Path, help="a Python that has atheris; without it, only the tests run")
    parser.add_argument("--folder", type=Path, default=PROJECT / ".tools" / "fuzz")
    options = parser.parse_args()
    sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT / "src")]
    from fuzz.fuzz_targets import TARGETS

    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.minutes * 60
    found: list[Path] = []
    if options.atheris is not None:
        seconds = max(_LEAST_SECONDS, int(options.minutes * 30 / len(TARGETS)))
        for target in TARGETS:
            runs, new = guided(options.atheris.absolute(), target, seconds, folder)
            print(f"{target:<16} {runs:>10,} executions in {seconds} s, {len(new)} findings", flush=True)
            found += new
    seed = int(time.time())
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        new = examples(seed + rounds, folder)
        rounds += 1
        print(
            f"tests with many examples, round {rounds}: {'failed, see ' + str(new[0]) if new else 'passed'}", flush=True
        )
        found += new
    print(f"{len(found)} findings" + "".join(f"\n  {path}" for path in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
