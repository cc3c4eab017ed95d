"""The commands ``import-run`` and ``leaderboard``: run folders of the public harness taken in, and packed."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from lmev2.data.errors import DataError
from lmev2.interchange.importing import import_runs
from lmev2.interchange.layout import TIERS
from lmev2.interchange.leaderboard import PAPER_TABLE2, Submission, build_package
from lmev2.interchange.schema import line_fault

_METHOD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def add_commands(commands: Any) -> None:
    """Add the commands to the parser's (what ``add_subparsers`` returned)."""
    _add_import(commands)
    _add_leaderboard(commands)


def _add_import(commands: Any) -> None:
    parser = commands.add_parser(
        "import-run",
        help="read run folders of the public harness as a method row",
        description="Check run folders of the public harness (one a domain) and write them as an import folder, which "
        "run.imports of a configuration takes in as a method row. Nothing is written unless all is valid.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="run folder <method>_<domain>_<tier>")
    parser.add_argument("--name", required=True, type=_method_name, help="the method's name in tables")
    parser.add_argument("--label", required=True, type=_label, help="its label in tables")
    parser.add_argument("--tier", choices=TIERS, help="haystack size, where neither folder name nor run_args.json says")
    parser.add_argument("--out", required=True, type=Path, help="the import folder to write, such as imports/NAME")
    parser.set_defaults(run=_import)


def _import(options: argparse.Namespace) -> int:
    try:
        manifest = import_runs(options.folders, options.name, options.label, options.tier, options.out)
    except (DataError, OSError) as error:
        print(f"Nothing was imported.\n{error}", file=sys.stderr)
        return 1
    for run in manifest.runs:
        errors = ", ".join(f"{count} {kind}" for kind, count in run.errors.items()) or "none"
        print(f"{run.folder}: {run.questions} questions of domain {run.domain}; rows with an error: {errors}")
        if run.empty_replies:
            print(f"  {run.empty_replies} scored rows have an empty reply, which may stand for a failed call")
        if run.images_elsewhere:
            print(f"  {run.images_elsewhere} images are not named relative to a data root: no picture of them is shown")
    print(f"{options.out}: {manifest.label} on {manifest.tier}, reader {manifest.reader}, judge {manifest.judge}.")
    print(f'Take it in with: run: {{imports: ["{options.out}"]}}')
    return 0


def _add_leaderboard(commands: Any) -> None:
    parser = commands.add_parser(
        "leaderboard",
        help="pack run folders for the leaderboard",
        description="Check run folders by the leaderboard's rules and write a package: a folder and a tarball. All "
        "reasons against it are listed, and nothing is written then.",
    )
    parser.add_argument("--name", required=True, help="of the submission")
    parser.add_argument("--description", required=True, type=Path, metavar="FILE", help="Markdown about the system")
    parser.add_argument("--code", required=True, type=Path, metavar="FILE", help="one code file")
    parser.add_argument(
        "--point",
        required=True,
        action="append",
        type=_point,
        metavar="POINT=WEB_RUN,ENTERPRISE_RUN",
        help="an operating point and its two run folders; may be given several times",
    )
    parser.add_argument("--method", help="name of the method, where its points were run under several names")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder of packages")
    parser.add_argument(
        "--private",
        action="store_true",
        help="not for the public board: other readers, judges and questions are warnings, and the package is marked",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        default=PAPER_TABLE2,
        metavar="CSV",
        help="the paper's Table 2, for LAFS (default: the one of this checkout)",
    )
    parser.set_defaults(run=lambda options: _leaderboard(parser, options))


def _leaderboard(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    points = dict(options.point)
    if len(points) != len(options.point):
        parser.error(f"two operating points have the same name: {[name for name, _ in options.point]}")
    submission = Submission(options.name, options.description, options.code, points, options.method, options.private)
    try:
        folder, tarball, warnings = build_package(submission, options.out, options.reference)
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"no package of {submission.name!r}: {error}", file=sys.stderr)
        return 1
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    print(f"{folder}\n{tarball}")
    return 0


def _method_name(value: str) -> str:
    if _METHOD_NAME.fullmatch(value) is None:
        raise argparse.ArgumentTypeError(f"{value!r} is no name: letters, digits, '.', '_', '-', not first a mark")
    return value


def _label(value: str) -> str:
    fault = line_fault(value)
    if fault is not None:
        raise argparse.ArgumentTypeError(f"{value!a} {fault}")
    return value


def _point(value: str) -> tuple[str, tuple[Path, Path]]:
    name, _, folders = value.partition("=")
    web, comma, enterprise = folders.partition(",")
    if not (name and web and comma and enterprise) or "," in enterprise:
        raise argparse.ArgumentTypeError(f"{value!r} is not POINT=WEB_RUN,ENTERPRISE_RUN")
    return name, (Path(web), Path(enterprise))
