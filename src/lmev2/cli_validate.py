"""The command ``validate``: checks a data root and says what is wrong with it and what it lacks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from lmev2.config import HubSettings, Tier
from lmev2.data.errors import PROBLEM_LIMIT
from lmev2.data.layout import SCREENSHOTS_FOLDER
from lmev2.data.manifest import Manifest
from lmev2.data.validate import Validation, counted, span, validate_root
from lmev2.progress import Progress, in_megabytes
from lmev2.terminal import fields, one_line, terminal_width, wrap

_TIERS: tuple[str, ...] = get_args(Tier)
_PROGRESS_FROM_MB = 50
_FINGERPRINT_SHOWN = 16


def add_commands(commands: Any) -> None:
    """Add the command to the parser's (what ``add_subparsers`` returned)."""
    parser = commands.add_parser(
        "validate",
        help="check a data root",
        description="Check a data root as ingestion does, and write nothing: every problem with file, line and id, and "
        "what is missing; what is there, if all is valid. Exit status: 0 valid, 1 not valid, 2 a wrong command.",
    )
    parser.add_argument("root", type=Path, metavar="DATA_ROOT", help="folder in the official format")
    parser.add_argument(
        "--tiers",
        type=_tiers,
        default=_TIERS,
        metavar="TIERS",
        help=f"haystacks that it must have, with commas between them (default: {','.join(_TIERS)})",
    )
    parser.add_argument(
        "--limit",
        type=_limit,
        default=PROBLEM_LIMIT,
        metavar="N",
        help=f"show so many problems a file (default: {PROBLEM_LIMIT}; 0: all). All are counted",
    )
    parser.add_argument("--json", action="store_true", help="print an object instead of text")
    parser.set_defaults(run=_validate)


def _tiers(value: str) -> tuple[str, ...]:
    tiers = tuple(value.split(","))
    unknown = [tier for tier in tiers if tier not in _TIERS]
    if unknown or len(set(tiers)) != len(tiers):
        raise argparse.ArgumentTypeError(f"{value!r} is not one or more of {', '.join(_TIERS)}, each once")
    return tiers


def _limit(value: str) -> int:
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 0")
    return int(value)


def _validate(options: argparse.Namespace) -> int:
    progress = in_megabytes(Progress("Checking", "MB"), _PROGRESS_FROM_MB)
    validation = validate_root(options.root, options.tiers, limit=options.limit or None, progress=progress)
    print(_as_json(validation, options.tiers) if options.json else _as_text(validation))
    return 0 if validation.valid else 1


def _as_json(validation: Validation, tiers: Sequence[str]) -> str:
    value = {
        "root": str(validation.root),
        "tiers": list(tiers),
        "valid": validation.valid,
        "problem_count": validation.problem_count,
        "problems_by_file": validation.problems_by_file,
        "problems": [asdict(problem) for problem in validation.problems],
        "missing": [asdict(missing) for missing in validation.missing],
        "notes": list(validation.notes),
        "manifest": None if validation.manifest is None else validation.manifest.model_dump(),
    }
    return json.dumps(value, indent=1)


def _as_text(validation: Validation) -> str:
    width = terminal_width()
    if validation.manifest is not None:
        parts = [f"{validation.root}: valid", fields(_summary(validation.manifest), width)]
    else:
        count = validation.problem_count
        parts = [f"{validation.root}: not valid, {count} problem{'s' if count > 1 else ''}"]
        if validation.found:
            parts.append("Found\n" + fields(validation.found, width, "  "))
        if validation.missing:
            parts.append(_missing_text(validation, width))
        parts += _problem_texts(validation, width)
    if validation.notes:
        parts.append("Notes\n" + fields((("-", one_line(note)) for note in validation.notes), width))
    return "\n\n".join(parts)


def _summary(manifest: Manifest) -> list[tuple[str, str]]:
    questions = manifest.questions
    unused = f"; {manifest.trajectories_unused} more are in no haystack" if manifest.trajectories_unused else ""
    rows = [
        ("Questions", f"{questions.total} ({counted(questions.by_domain)}), {questions.with_image} with an image"),
        ("  types", counted(questions.by_question_type)),
        ("  scorers", counted(questions.by_scorer)),
        ("Trajectories", f"{manifest.trajectories_used} ({counted(manifest.trajectories_by_domain)}){unused}"),
        ("States", f"{manifest.states}, {manifest.screenshots_checked} with a screenshot"),
    ]
    for tier, counts in manifest.tiers.items():
        lists = f"{counts.distinct_lists} different list{'s' if counts.distinct_lists > 1 else ''}"
        lengths = span(counts.shortest, counts.longest)
        if counts.shortest != counts.longest:
            lengths += f" (mean {counts.mean_length:.1f})"
        rows.append((f"Haystacks {tier}", f"{lists} of {lengths} trajectories, {counts.trajectories} in all"))
    outside = manifest.evidence_states_outside_haystacks
    labels = f"labels of {manifest.evidence_questions} questions; {outside} labelled states lie in no haystack"
    rows.append(("Evidence", labels if manifest.evidence else "no labels"))
    rows.append(("Fingerprint", f"{manifest.fingerprint[:_FINGERPRINT_SHOWN]}…"))
    return rows


def _missing_text(validation: Validation, width: int) -> str:
    rows = []
    for missing in validation.missing:
        examples = f", such as {', '.join(map(one_line, missing.examples))}" if missing.examples else ""
        rows.append((missing.what, missing.text + examples))
    repo = HubSettings().repo
    where = (
        f"The published data set is {repo} on the Hugging Face hub. To fetch it, set data.root, data.hub.repo and "
        "data.hub.revision (config/paper.yaml shows them) and run snakemake with the target fetch_dataset; files that "
        f"are there already are not fetched again. Bundles of screenshots become {SCREENSHOTS_FOLDER}/ with the target "
        "prepare_screenshots."
    )
    return "\n".join(["Missing", fields(rows, width, "  "), *(f"  {line}" for line in wrap(where, width - 2))])


def _problem_texts(validation: Validation, width: int) -> list[str]:
    """Problems by file; files that are missing as a whole have been named already."""
    absent = {missing.what.removesuffix("/") for missing in validation.missing}
    texts = []
    for file, count in validation.problems_by_file.items():
        kept = [problem for problem in validation.problems if problem.file == file]
        if count == 1 and file in absent and kept[0].line is None:
            continue
        lines = [f"{file}: {count} problem{'s' if count > 1 else ''}"]
        for problem in kept:
            place = ", ".join(part for part in (f"line {problem.line}" if problem.line else None, problem.id) if part)
            text = one_line(f"{place}: {problem.text}" if place else problem.text)
            head, *rest = wrap(text, width - 4)
            lines += [f"  {head}", *(f"    {line}" for line in rest)]
        if count > len(kept):
            lines.append(f"  and {count - len(kept)} more (--limit 0 shows all)")
        texts.append("\n".join(lines))
    return texts
