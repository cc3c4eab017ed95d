"""The command ``inspect``: looks at a trajectory, its states and what led from one to the next."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lmev2.data.errors import DataError
from lmev2.data.find import UnknownTrajectory, ingested_trajectory, root_trajectory
from lmev2.rows import RowError
from lmev2.terminal import fields, one_line, plain, shorten, table, terminal_width, wrap
from lmev2.trajectory import State, Trajectory

_LINES_SHOWN = 40
_RANGE = re.compile(r"(\d+)-(\d+)")
_TAB = "  "


def add_commands(commands: Any) -> None:
    """Add the command to the parser's (what ``add_subparsers`` returned)."""
    parser = commands.add_parser(
        "inspect",
        help="look at a trajectory",
        description="Print a trajectory's goal, outcome and states; with --state one of its states whole. Exit status: "
        "0, 1 if there is no such trajectory or state, 2 for a wrong command.",
    )
    parser.add_argument("trajectory", metavar="TRAJECTORY", help="its id")
    parser.add_argument("--state", type=_index, metavar="I", help="show this state (from 0)")
    parser.add_argument(
        "--lines",
        type=_lines,
        default=(1, _LINES_SHOWN),
        metavar="A-B",
        help=f"which lines of the state's tree (default: 1-{_LINES_SHOWN}; all: the whole tree)",
    )
    places = parser.add_mutually_exclusive_group()
    places.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="results of a run, whose data are read as its memories see them (default: results)",
    )
    places.add_argument("--data", type=Path, metavar="DATA_ROOT", help="a data root, which need not be ingested")
    parser.add_argument("--json", action="store_true", help="print an object instead of text")
    parser.set_defaults(run=_inspect)


def _index(value: str) -> int:
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{value!r} is not the index of a state, a number from 0")
    return int(value)


def _lines(value: str) -> tuple[int, int | None]:
    """First and last line, from 1; None for the tree's last."""
    if value == "all":
        return 1, None
    match = _RANGE.fullmatch(value)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{value!r} is neither 'all' nor a range such as 41-80")
    return int(match[1]), int(match[2])


def _inspect(options: argparse.Namespace) -> int:
    try:
        trajectory = (
            root_trajectory(options.data, options.trajectory)
            if options.data is not None
            else ingested_trajectory(_tables(options.results), options.trajectory)
        )
    except UnknownTrajectory as error:
        print(plain(f"There is {error}."), file=sys.stderr)
        if error.closest:
            print(f"Closest: {', '.join(map(one_line, error.closest))}", file=sys.stderr)
        return 1
    except (DataError, RowError) as error:
        print(plain(str(error)), file=sys.stderr)
        if options.data is None:
            print("--results DIR names the results of another run, --data DATA_ROOT a data root.", file=sys.stderr)
        return 1
    if options.state is not None and options.state >= len(trajectory.states):
        last = len(trajectory.states) - 1
        print(f"Trajectory {trajectory.trajectory_id} has no state {options.state}, only 0 to {last}.", file=sys.stderr)
        return 1
    shown = _as_json(trajectory, options.state) if options.json else _as_text(trajectory, options.state, options.lines)
    print(plain(shown))
    return 0


def _tables(results: Path) -> Path:
    """Folder of the tables that a run's memories are made from: with sanitised goals, once these are applied."""
    names = ("trajectories.parquet", "states.parquet")
    applied = results / "goals"
    return applied if all((applied / name).is_file() for name in names) else results / "data"


def _as_json(trajectory: Trajectory, index: int | None) -> str:
    if index is not None:
        value = _state_value(trajectory.states[index]) | {"tree": trajectory.states[index].tree}
    else:
        value = {
            "trajectory_id": trajectory.trajectory_id,
            "domain": trajectory.domain,
            "environment": trajectory.environment,
            "goal": trajectory.goal,
            "outcome": trajectory.outcome,
            "start_url": trajectory.start_url,
            "states": [_state_value(state) for state in trajectory.states],
        }
    return json.dumps(value, indent=1)


def _state_value(state: State) -> dict[str, Any]:
    return {
        "trajectory_id": state.trajectory_id,
        "state_index": state.state_index,
        "step": state.step,
        "url": state.url,
        "title": state.title,
        "action": state.action,
        "action_annotated": state.action_annotated,
        "thought": state.thought,
        "tree_characters": len(state.tree),
        "tree_lines": len(state.tree.split("\n")),
        "screenshot": None if state.screenshot is None else str(state.screenshot),
    }


def _as_text(trajectory: Trajectory, index: int | None, lines: tuple[int, int | None]) -> str:
    width = terminal_width()
    if index is None:
        return _trajectory_text(trajectory, width)
    return _state_text(trajectory, trajectory.states[index], lines, width)


def _trajectory_text(trajectory: Trajectory, width: int) -> str:
    origin = _origin(trajectory.start_url)
    facts = [
        ("Trajectory", f"{trajectory.trajectory_id} ({trajectory.domain}, {one_line(trajectory.environment)})"),
        ("Goal", one_line(trajectory.goal)),
        ("Outcome", f"{trajectory.outcome}, {len(trajectory.states)} states"),
        ("Start", one_line(trajectory.start_url)),
    ]
    rows = [
        [
            str(state.state_index),
            "" if state.step is None else str(state.step),
            one_line(state.title or ""),
            one_line(state.url.removeprefix(origin) or state.url),
            one_line(state.action or ""),
        ]
        for state in trajectory.states
    ]
    header = ["State", "Step", "Title", "Address", "Action that led here"]
    shown = table(header, rows, width, [0, 0, 3, 3, 4], middle=[3])
    more = (
        f"--state I shows a state whole. Addresses without a host are at {one_line(origin)}."
        if origin
        else ("--state I shows a state whole.")
    )
    return "\n".join([fields(facts, width), "", shown, "", *wrap(more, width)])


def _origin(url: str) -> str:
    """Scheme and host of an address; empty when it has none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme and parts.netloc else ""


def _state_text(trajectory: Trajectory, state: State, lines: tuple[int, int | None], width: int) -> str:
    last = len(trajectory.states) - 1
    # Of an annotated action, only what follows the action is the element's line.
    element = (state.action_annotated or "").removeprefix(state.action or "").removeprefix(" -> ")
    facts = [
        ("State", f"{state.state_index} of 0 to {last}, trajectory {trajectory.trajectory_id}"),
        *([("Step", str(state.step))] if state.step is not None else []),
        ("Title", one_line(state.title or "(none)")),
        ("Address", one_line(state.url)),
        ("Led here", one_line(state.action or ("(the start)" if not state.state_index else "(no action recorded)"))),
        *([("  on", one_line(element))] if element else []),
        ("Thought", one_line(state.thought or "(none)")),
        ("Screenshot", "(none)" if state.screenshot is None else str(state.screenshot)),
    ]
    return f"{fields(facts, width)}\n\n{_tree_text(state.tree.split(chr(10)), lines, width)}"


def _tree_text(tree: Sequence[str], lines: tuple[int, int | None], width: int) -> str:
    first, last = lines[0], min(lines[1] or len(tree), len(tree))
    if first > len(tree):
        return f"Tree: {len(tree)} lines, none from {first} on"
    shown = [plain(line).replace("\t", _TAB) for line in tree[first - 1 : last]]
    if sys.stdout.isatty():  # whole lines for whatever reads a pipe
        shown = [shorten(line, width) for line in shown]
    head = f"Tree, lines {first} to {last} of {len(tree)}"
    rest = []
    if last < len(tree):
        following = f"{last + 1}-{min(2 * last - first + 1, len(tree))}"
        rest = [f"{len(tree) - last} more lines: --lines {following}, or --lines all"]
    return "\n".join([head, *shown, *rest])
