#!/usr/bin/env python3
"""Look into one trajectory: a summary, one state, a span of states, or the places that match a pattern.

    python scripts/inspect_trajectory.py <trajectory_id>                     what it is about, and its states
    python scripts/inspect_trajectory.py <trajectory_id> --state 4           state 4 with its accessibility tree
    python scripts/inspect_trajectory.py <trajectory_id> --span 4:6          states 4 to 6, both included
    python scripts/inspect_trajectory.py <trajectory_id> --match "Sub(mit)?" states and tree lines with a match

States count from 0. The action shown with a state led to it. Output is cut at --chars characters and says how to go on.
"""

# This file is copied into an agent's sandbox and runs there with whatever Python there is: standard library only.

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from typing import Any

TRAJECTORIES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "trajectories")
CHARS = 30_000  # of one output
LINE_CHARS = 300
STATE_LINES = 12  # of one state, that match
MATCH_SECONDS = 5.0
ODD_LETTERS = "İıſ\u212a"  # which, in any case of letters, match ASCII ones
TITLE = re.compile(
    r"^[ \t]*(?:\[[^\]\s]+\] )?RootWebArea (?:'((?:[^'\\\n]|\\.)+)'|\"((?:[^\"\\\n]|\\.)+)\")", re.MULTILINE
)


class UsageError(Exception):
    """What the caller asked for cannot be shown; the text says why and what can."""


def main(arguments: list[str]) -> int:
    """Print what is asked for; the exit code."""
    options = parse(arguments)
    try:
        trajectory = load(options.trajectory_id)
        if options.state is not None:
            text = show_states(trajectory, (options.state, options.state), None)
        elif options.span is not None:
            text = show_states(trajectory, read_span(options.span), options.chars)
        elif options.match is not None:
            text = show_matches(trajectory, options.match, options.lines)
        else:
            text = show_summary(trajectory)
        write(page(text, options.start, options.chars))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line; ends the program with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="inspect_trajectory.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trajectory_id", help="name of a folder in trajectories/")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--state", type=int, metavar="I", help="show one state")
    what.add_argument("--span", metavar="I:J", help="show states I to J, both included")
    what.add_argument("--match", metavar="REGEX", help="show states and tree lines that match, in any case of letters")
    parser.add_argument("--chars", default=CHARS, type=positive, metavar="N", help=f"at most; {CHARS} by default")
    parser.add_argument("--from", dest="start", default=0, type=int, metavar="N", help="go on at this character")
    parser.add_argument(
        "--lines",
        default=STATE_LINES,
        type=positive,
        metavar="N",
        help=f"matches a state; {STATE_LINES} by default",
    )
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def load(trajectory_id: str) -> dict[str, Any]:
    """Read a trajectory."""
    try:
        known = sorted(entry.name for entry in os.scandir(TRAJECTORIES) if entry.is_dir())
    except OSError as error:
        raise UsageError(f"the folder of trajectories cannot be read: {error}") from None
    if trajectory_id not in known:
        raise UsageError(f"no trajectory {trajectory_id!r} in trajectories/; {suggest(trajectory_id, known)}")
    path = os.path.join(TRAJECTORIES, trajectory_id, "trajectory.json")
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def suggest(trajectory_id: str, known: list[str]) -> str:
    """The ids that are most like an unknown one."""
    if not known:
        return "it is empty"
    import difflib  # only needed here, and slow to load

    close = difflib.get_close_matches(trajectory_id, known, 5, 0.5)
    return f"the closest of {len(known)} are {', '.join(close or known[:5])}"


def read_span(text: str) -> tuple[int, int]:
    """First and last state of ``i:j``."""
    match = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", text)
    if match is None:
        raise UsageError(f"--span {text!r}: expected first and last state, both included, such as 4:6")
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise UsageError(f"--span {text!r}: the first state {first} lies behind the last state {last}")
    return first, last


def show_summary(trajectory: dict[str, Any]) -> str:
    """What a trajectory is about, and a list of its states."""
    lines = [*heading(trajectory), ""]
    for number in range(len(trajectory["states"])):
        lines += state_heading(trajectory, number)
    return "\n".join(lines)


def show_states(trajectory: dict[str, Any], span: tuple[int, int], chars: int | None) -> str:
    """States with their trees; with ``chars`` the trees share so many characters."""
    states = trajectory["states"]
    first, last = span
    if first < 0 or last >= len(states):
        asked = f"state {first}" if first == last else f"states {first} to {last}"
        raise UsageError(f"{asked}: trajectory {trajectory['id']} has the states 0 to {len(states) - 1}")
    share = None if chars is None else max(500, chars // (last - first + 1) - 500)
    lines = heading(trajectory)
    for number in range(first, last + 1):
        state = states[number]
        lines += ["", *state_heading(trajectory, number)]
        if state["thoughts"]:
            lines.append(f"  thoughts: {one_line(state['thoughts'])}")
        if state["screenshot"]:
            lines.append(f"  screenshot: trajectories/{trajectory['id']}/{state['screenshot']}")
        tree = state["text"]
        lines += ["  accessibility tree:", tree if share is None else tree[:share]]
        if share is not None and len(tree) > share:
            lines.append(f"[cut: {len(tree) - share} more characters of this tree; see --state {number}, or --match]")
    return "\n".join(lines)


def show_matches(trajectory: dict[str, Any], pattern: str, most_lines: int) -> str:
    """States whose tree, address or action matches, with the lines that do."""
    with_limit(MATCH_SECONDS, pattern)
    try:
        search = Search(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--match {pattern!r} is not a regular expression: {error}") from None
    blocks: list[str] = []
    states_found = lines_found = 0
    known: dict[str, list[str]] = {}  # neighbouring states often have the same tree
    for number, state in enumerate(trajectory["states"]):
        tree = state["text"]
        if tree not in known:
            known = {tree: search.lines(tree)}
        found = known[tree]
        marks = [name for name, value in fields(trajectory, number) if search.hits(value)]
        if not found and not marks:
            continue
        states_found += 1
        lines_found += len(found)
        blocks += ["", *state_heading(trajectory, number)]
        count = f"{len(found)} lines" if len(found) != 1 else "1 line"
        blocks.append(f"  matches: {', '.join([*marks, count] if found else marks)}")
        blocks += [f"    {clipped(line.strip())}" for line in found[:most_lines]]
        if len(found) > most_lines:
            blocks.append(f"    [{len(found) - most_lines} more matching lines; see --lines]")
    with_limit(0, pattern)
    total = f"{lines_found} matching lines in {states_found} of {len(trajectory['states'])} states"
    return "\n".join([*heading(trajectory), f"match {pattern!r}: {total}", *blocks])


def with_limit(seconds: float, pattern: str) -> None:
    """End a search that takes too long, as some patterns do on long lines; 0 takes the limit away."""

    def stop(number: int, frame: Any) -> None:
        raise UsageError(f"--match {pattern!r} took more than {seconds:g} s; use a simpler pattern")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)


class Search:
    """A pattern, searched for in any case of letters."""

    def __init__(self, pattern: str):
        self.regex = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
        # An ASCII pattern without capitals finds the same in the text's lower case, several times faster. A capital may
        # be an escape such as \S, and an escape with a number may be a capital.
        plain = pattern.isascii() and pattern == pattern.lower() and not re.search(r"\\[xu\d]", pattern)
        self.lower = re.compile(pattern, re.MULTILINE) if plain else None

    def hits(self, text: str) -> bool:
        """Whether the pattern matches anywhere."""
        return self.regex.search(text) is not None

    def lines(self, text: str) -> list[str]:
        """Lines in which a match begins, without empty ones."""
        regex, searched = self.regex, text
        if self.lower is not None and not any(letter in text for letter in ODD_LETTERS):
            regex, searched = self.lower, text.lower()
        lines = []
        position = 0
        while position <= len(text):
            match = regex.search(searched, position)
            if match is None:
                break
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.start())
            end = len(text) if end < 0 else end
            if text[start:end].strip():
                lines.append(text[start:end])
            position = end + 1
        return lines


def heading(trajectory: dict[str, Any]) -> list[str]:
    """What a trajectory is about."""
    count = len(trajectory["states"])
    return [
        f"trajectory {trajectory['id']}",
        f"goal: {clipped(one_line(trajectory['goal']), 2000)}",
        f"start url: {one_line(trajectory['start_url'])}",
        f"outcome: {trajectory['outcome']}",
        f"states: {count} (0 to {count - 1})",
    ]


def state_heading(trajectory: dict[str, Any], number: int) -> list[str]:
    """A state's number and address, its page's title, and the action that led to it."""
    (_, url), *others = fields(trajectory, number)
    lines = [f"state {number}: {url}"]
    title = page_title(trajectory["states"][number]["text"])
    if title:
        lines.append(f"  title: {clipped(title)}")
    return lines + [f"  {name}: {clipped(value)}" for name, value in others]


def fields(trajectory: dict[str, Any], number: int) -> list[tuple[str, str]]:
    """A state's address and the action that led to it, with the element that the action named."""
    state = trajectory["states"][number]
    named = trajectory["actions"][number - 1] if 0 < number <= len(trajectory["actions"]) else state["action"]
    return [("url", one_line(state["url"])), *([("action", one_line(named))] if named else [])]


def page_title(tree: str) -> str:
    """The page's title, from the tree's root."""
    match = TITLE.search(tree)
    return one_line(match[1] or match[2]) if match else ""


def one_line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def clipped(text: str, most: int = LINE_CHARS) -> str:
    """A line without what lies behind a number of characters."""
    return text if len(text) <= most else f"{text[:most]} [cut: {len(text) - most} more characters]"


def page(text: str, start: int, chars: int) -> str:
    """A part of the output, with a line that says how to see what follows."""
    if not 0 <= start <= len(text):
        raise UsageError(f"--from {start}: the output has {len(text)} characters")
    rest = len(text) - start - chars
    shown = text[start : start + chars]
    return f"{shown}\n[cut: {rest} more characters; go on with --from {start + chars}]" if rest > 0 else shown


def write(text: str) -> None:
    """Print a text whatever the terminal's encoding; a reader that has seen enough, such as ``head``, is no error."""
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
