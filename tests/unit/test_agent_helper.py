"""The helper that runs in a sandbox: what it shows, how it bounds it, and what it says when it cannot."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agentworld import RUNS, page, state, trajectory
from hypothesis import given
from hypothesis import strategies as st

from lmev2.agent.inside.inspect_trajectory import Search, page_title
from lmev2.agent.package import HELPER_SOURCE
from lmev2.agent.pool import write_trajectory_folder

LONG = trajectory(
    "long-01",
    [page("Long", *(f"StaticText 'item {number} of {index}'" for number in range(2000))) for index in range(6)],
    goal="Count\nthe items",
)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("box")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "inspect_trajectory.py").write_bytes(HELPER_SOURCE.read_bytes())
    (folder / "trajectories").mkdir()
    (folder / "trajectories" / "TRAJECTORY_SUMMARY_FULL.md").write_text("# Trajectories")
    shot = folder / "shot.png"
    shot.write_bytes(b"pixels")
    odd = trajectory("odd-01", [], states=(state("odd-01", 0, "", screenshot=shot, url="http://x/\nstate 9: y"),))
    evil = trajectory("evil-01", [f"StaticText '{'a' * 5000}!'"])
    for run in (*RUNS, LONG, odd, evil):
        write_trajectory_folder(run, folder / "trajectories")
    return folder


def run(box: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # As an agent would: from the sandbox's folder, with nothing of this process's environment.
    command = [sys.executable, "scripts/inspect_trajectory.py", *arguments]
    return subprocess.run(command, cwd=box, env={}, capture_output=True, encoding="utf-8", timeout=60)


def output(box: Path, *arguments: str) -> str:
    done = run(box, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def problem(box: Path, *arguments: str) -> str:
    done = run(box, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_without_options_it_sums_up(box: Path) -> None:
    assert output(box, "rope-01").split("\n") == [
        "trajectory rope-01",
        "goal: Find the price of ten fathoms of hemp rope",
        "start url: http://shop/rope-01",
        "outcome: failure",
        "states: 2 (0 to 1)",
        "",
        "state 0: http://shop/rope-01/0",
        "  title: Catalogue",
        "state 1: http://shop/rope-01/1",
        "  title: Hemp rope",
        "  action: click('1') -> [1] button 'Go 1'",
        "",
    ]


def test_a_state_is_shown_whole_with_what_led_to_it(box: Path) -> None:
    text = output(box, "lamp-01", "--state", "2")
    assert RUNS[0].states[2].tree in text
    assert RUNS[0].states[1].tree not in text
    assert "action: click('2') -> [2] button 'Go 2'" in text
    assert "thoughts: thought 2" in text


def test_a_span_includes_both_ends(box: Path) -> None:
    text = output(box, "lamp-01", "--span", "1:3")
    assert re.findall(r"^state (\d+):", text, re.MULTILINE) == ["1", "2", "3"]
    assert all(each.tree in text for each in RUNS[0].states[1:])


def test_screenshots_are_named_as_the_sandbox_sees_them(box: Path) -> None:
    text = output(box, "odd-01", "--state", "0")
    assert (box / re.findall(r"screenshot: (.+)", text)[0]).read_bytes() == b"pixels"


def test_what_an_address_holds_cannot_pass_for_a_state(box: Path) -> None:
    assert re.findall(r"^state (\d+):", output(box, "odd-01"), re.MULTILINE) == ["0"]


def test_matches_are_those_of_a_plain_search(box: Path) -> None:
    text = output(box, "lamp-01", "--match", "CRATE|wick")
    shown = re.findall(r"^    (.*)$", text, re.MULTILINE)
    lines = [line.strip() for each in RUNS[0].states for line in each.tree.split("\n")]
    assert shown == [line for line in lines if re.search("crate|wick", line, re.IGNORECASE)]
    assert f"{len(shown)} matching lines in 3 of 4 states" in text
    assert re.findall(r"^state (\d+):", text, re.MULTILINE) == ["1", "2", "3"]


def test_addresses_and_actions_match_too(box: Path) -> None:
    assert "  matches: url\n" in output(box, "lamp-01", "--match", "lamp-01/3$")
    assert re.findall(r"^state (\d+):", output(box, "lamp-01", "--match", "Go 2"), re.MULTILINE) == ["2"]


def test_no_match_is_no_error(box: Path) -> None:
    assert "0 matching lines in 0 of 4 states" in output(box, "lamp-01", "--match", "submarine")


def test_matches_of_a_state_are_capped_with_a_count(box: Path) -> None:
    text = output(box, "long-01", "--match", "item 1\\d+ of 3")
    lines = [line for line in LONG.states[3].tree.split("\n") if re.search(r"item 1\d+ of 3", line)]
    assert text.count("\n    [") == 13
    assert f"{len(lines) - 12} more matching lines" in text
    assert (
        len(re.findall(r"item 1\d+ of 3'", output(box, "long-01", "--match", "item 1\\d+ of 3", "--lines", "40"))) == 40
    )


def test_output_is_bounded_and_can_be_paged(box: Path) -> None:
    first = output(box, "long-01", "--state", "0", "--chars", "20000")
    assert len(first) < 20_100
    pages, start = [], "0"
    while start:
        text = output(box, "long-01", "--state", "0", "--chars", "20000", "--from", start)
        cut = re.search(r"\n\[cut: \d+ more characters; go on with --from (\d+)\]\n$", text)
        pages.append(text[: cut.start()] if cut else text)
        start = cut[1] if cut else ""
    assert LONG.states[0].tree in "".join(pages)
    assert len(pages) > 2


def test_the_trees_of_a_span_share_the_space(box: Path) -> None:
    text = output(box, "long-01", "--span", "0:5")
    assert len(text) < 30_100
    assert re.findall(r"^state (\d+):", text, re.MULTILINE) == list("012345")
    shown = [int(count) for count in re.findall(r"\[cut: (\d+) more characters of this tree", text)]
    assert len(shown) == 6
    assert all(len(each.tree) - 4500 == count for each, count in zip(LONG.states, shown, strict=True))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lmap-01"], "no trajectory 'lmap-01' in trajectories/; the closest of 6 are lamp-01"),
        (["qqq"], "the closest of 6 are evil-01, lamp-01"),
        (["../trajectories/lamp-01"], "no trajectory '../trajectories/lamp-01'"),
        (["TRAJECTORY_SUMMARY_FULL.md"], "no trajectory"),
        (["lamp-01", "--state", "4"], "state 4: trajectory lamp-01 has the states 0 to 3"),
        (["lamp-01", "--state", "-1"], "has the states 0 to 3"),
        (["lamp-01", "--state", "two"], "invalid int value"),
        (["lamp-01", "--span", "2:9"], "states 2 to 9: trajectory lamp-01 has the states 0 to 3"),
        (["lamp-01", "--span", "3:1"], "the first state 3 lies behind the last state 1"),
        (["lamp-01", "--span", "1-3"], "such as 4:6"),
        (["lamp-01", "--match", "(wick"], "is not a regular expression: missing )"),
        (["lamp-01", "--match", "a{99999999999}"], "is not a regular expression"),
        (["lamp-01", "--state", "1", "--span", "1:2"], "not allowed with"),
        (["lamp-01", "--chars", "0"], "'0' is not a whole number above 0"),
        (["lamp-01", "--from", "100000"], "--from 100000: the output has"),
        ([], "required: trajectory_id"),
    ],
)
def test_errors_say_what_can_be_had(box: Path, arguments: list[str], said: str) -> None:
    assert said in problem(box, *arguments)


def test_an_endless_pattern_is_ended(box: Path) -> None:
    began = time.monotonic()
    assert "took more than 5 s; use a simpler pattern" in problem(box, "evil-01", "--match", "(a+)+$")
    assert time.monotonic() - began < 30


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "inspect_trajectory.py").write_bytes(HELPER_SOURCE.read_bytes())
    assert "the folder of trajectories cannot be read" in problem(tmp_path, "lamp-01")
    (tmp_path / "trajectories" / "lamp-01").mkdir(parents=True)
    assert "trajectory.json cannot be read" in problem(tmp_path, "lamp-01")
    (tmp_path / "trajectories" / "lamp-01" / "trajectory.json").write_text('{"id": ')
    assert "trajectory.json cannot be read" in problem(tmp_path, "lamp-01")


def test_a_reader_that_stops_early_is_no_error(box: Path) -> None:
    command = f"{sys.executable} scripts/inspect_trajectory.py long-01 --state 0 --chars 2000000 | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=box, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "trajectory long-01\n", "")


PATTERNS = st.sampled_from(
    [
        "wick",
        "WICK",
        r"\bsend\b|crate",
        r"\S+'",
        r"^\s*\[8\]",
        "o.*e",
        "x*",
        "é",
        "[^a-z]",
        "ſ",
        r"e$",
        r"\xc9",
        r"[^s]",
        "(k|s)+",
    ]
)


@given(
    PATTERNS,
    st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("wicKéÉsS\n[8] İıſ\u212a'"), max_size=60),
)
def test_the_quick_search_finds_what_a_plain_one_does(pattern: str, text: str) -> None:
    search = Search(pattern)
    quick = search.lines(text)
    search.lower = None
    assert quick == search.lines(text)


@given(st.sampled_from(["wick", r"\[8\]", "o.*e", "é", "x*"]), st.text("wickoe\n[8] é", max_size=60))
def test_lines_are_those_of_a_search_line_by_line(pattern: str, text: str) -> None:
    regex = re.compile(pattern, re.IGNORECASE)
    assert Search(pattern).lines(text) == [line for line in text.split("\n") if line.strip() and regex.search(line)]


@pytest.mark.parametrize(
    ("tree", "title"),
    [
        ("RootWebArea 'Crate', focused", "Crate"),
        ('[1] RootWebArea "Ewa\'s crate"', "Ewa's crate"),
        ("RootWebArea '', focused\n\tRootWebArea 'Inner'", "Inner"),
        ("", ""),
    ],
)
def test_titles(tree: str, title: str) -> None:
    assert page_title(tree) == title


def test_it_needs_nothing_but_an_old_python() -> None:
    source = HELPER_SOURCE.read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 9))
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    assert modules <= sys.stdlib_module_names
