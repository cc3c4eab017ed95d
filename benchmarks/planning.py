"""Planning the paper's whole run: ``snakemake -n`` over ``config/paper.yaml`` with a made-up data root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PIPELINE = Path(os.environ.get("LMEV2_BENCH_PIPELINE", Path(__file__).resolve().parents[1]))


def plan_paper(work: Path) -> None:
    """Plan all tables and figures of the paper's configuration, in an empty folder.

    ``LMEV2_BENCH_PIPELINE`` names another checkout to be planned with.
    """
    folder = work / "plan"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    overlay = folder / "overlay.json"
    overlay.write_text(json.dumps({"data": {"root": str(work / "root"), "hub": None}, "cache": str(folder / "cache")}))
    command = [
        *(sys.executable, "-m", "snakemake", "-n", "--quiet", "--cores", "2"),
        *("--snakefile", str(PIPELINE / "Snakefile"), "--directory", str(folder)),
        *("--configfile", str(PIPELINE / "config/paper.yaml"), str(overlay)),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


STAGES: dict[str, Callable[[Path], None]] = {"plan_paper": plan_paper}
