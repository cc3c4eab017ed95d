"""The command ``import-browsergym``: recorded BrowserGym runs taken into a data root."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_args

from lmev2.browsergym.importing import PREFIX, ImportReport, import_runs
from lmev2.config import Tier
from lmev2.data.errors import DataError
from lmev2.data.schema import DOMAINS
from lmev2.data.validate import counted
from lmev2.progress import Progress
from lmev2.terminal import one_line, shorten, terminal_width, wrap

_TIERS: tuple[str, ...] = get_args(Tier)
_PROGRESS_FROM = 20


def add_commands(commands: Any) -> None:
    """Add the command to the parser's (what ``add_subparsers`` returned)."""
    parser = commands.add_parser(
        "import-browsergym",
        help="take recorded BrowserGym runs into a data root",
        description="Write trajectories.jsonl and screenshots/ of a data root from raw runs: experiment folders of "
        "AgentLab or BrowserGym (step_N.pkl.gz, read without running what they hold), or neutral run folders "
        "(run.json, steps/NNNN.json and .png; see docs/import_browsergym.md). Nothing is overwritten, and nothing is "
        "written unless all runs are valid. Exit status: 0, 1 if runs cannot be taken in, 2 for a wrong command.",
    )
    parser.add_argument("sources", nargs="+", type=Path, metavar="SOURCE", help="a run folder, or a folder of them")
    parser.add_argument("--out", required=True, type=Path, metavar="DATA_ROOT", help="made, or added to if it is there")
    parser.add_argument("--domain", required=True, choices=DOMAINS, help="which questions the runs are for")
    parser.add_argument(
        "--environment", required=True, type=_name, metavar="NAME", help="what was browsed, such as workarena"
    )
    parser.add_argument("--prefix", type=_prefix, metavar="TEXT", help="begins every id (default: a hash alone)")
    parser.add_argument(
        "--skip-invalid", action="store_true", help="pass over runs that cannot be taken in, and list them"
    )
    parser.add_argument("--json", action="store_true", help="print an object instead of text")
    parser.set_defaults(run=_import)


def _name(value: str) -> str:
    if not value.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return value


def _prefix(value: str) -> str:
    if PREFIX.fullmatch(value) is None:
        raise argparse.ArgumentTypeError(f"{value!r} is no prefix: letters, digits, '.', '_', '-', not first a mark")
    return value


def _import(options: argparse.Namespace) -> int:
    progress = Progress("Reading", "runs")

    def report_progress(done: int, total: int) -> None:
        if total >= _PROGRESS_FROM:
            progress(done, total)

    try:
        report = import_runs(
            options.sources,
            options.out,
            options.domain,
            options.environment,
            _TIERS,
            prefix=options.prefix,
            skip_invalid=options.skip_invalid,
            progress=report_progress,
        )
    except (DataError, OSError) as error:
        print(f"Nothing was imported.\n{error}", file=sys.stderr)
        return 1
    print(_as_json(report) if options.json else _as_text(report))
    return 0


def _as_json(report: ImportReport) -> str:
    value = {
        "out": str(report.out),
        "runs": [
            {
                "folder": str(run.folder),
                "trajectory_id": run.trajectory_id,
                "outcome": run.outcome,
                "states": run.states,
                "notes": list(run.notes),
            }
            for run in report.runs
        ],
        "skipped": {str(folder): list(faults) for folder, faults in report.skipped.items()},
        "needed": list(report.needed),
    }
    return json.dumps(value, indent=1)


def _as_text(report: ImportReport) -> str:
    width = terminal_width()
    outcomes = counted(dict(sorted(Counter(run.outcome for run in report.runs).items())))
    states = sum(run.states for run in report.runs)
    lines = [f"{report.out}: {len(report.runs)} trajectories taken in ({outcomes or 'none'}), {states} states"]
    for run in report.runs:
        head = f"  {run.trajectory_id}  {run.outcome}  {run.states:3} states  "
        lines.append(shorten(head + one_line(run.folder.name), width))
        for note in run.notes:
            first, *rest = wrap(one_line(note), width - 6)
            lines += [f"    - {first}", *(f"      {line}" for line in rest)]
    for folder, faults in report.skipped.items():
        lines.append(f"Passed over: {folder}")
        for fault in faults:
            first, *rest = wrap(one_line(fault), width - 6)
            lines += [f"    - {first}", *(f"      {line}" for line in rest)]
    if report.needed:
        text = (
            f"Still needed for a data root: {', '.join(report.needed)} (docs/import_browsergym.md says what they hold)."
        )
        lines += wrap(text, width)
    return "\n".join([*lines, f"Check it with: lmev2 validate {report.out}"])
