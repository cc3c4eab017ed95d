"""Outputs of agents that are careless or hostile: each gives its own reason, and none hangs, leaks or is trusted."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from test_agent_removal import make_deep

from lmev2.agent import output as output_module
from lmev2.agent.output import (
    MAX_BYTES,
    MAX_MARKDOWN_CHARS,
    DroppedSpan,
    MemoryOutput,
    OutputError,
    Span,
    read_answer,
    read_memory,
    remove_outputs,
    write_output,
)
from lmev2.agent.types import ANSWER_FILE, MEMORY_FILE

STATES = {"t1": 10, "t2": 3}


def span(trajectory_id: Any, first: Any, last: Any) -> dict[str, Any]:
    return {"trajectory_id": trajectory_id, "start_state_index": first, "end_state_index": last}


def test_a_text_that_would_fill_the_context_is_refused(tmp_path: Path) -> None:
    assert len(read(tmp_path, memory(markdown="x" * MAX_MARKDOWN_CHARS)).markdown) == MAX_MARKDOWN_CHARS
    with pytest.raises(OutputError) as error:
        read(tmp_path, memory(markdown="x" * (MAX_MARKDOWN_CHARS + 1)))
    assert error.value.reason == "too_large"


def read(folder: Path, content: object, max_states: int = 20) -> MemoryOutput:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / MEMORY_FILE).write_bytes(data)
    return read_memory(folder, STATES, max_states)


def memory(*spans: object, markdown: object = "text") -> dict[str, object]:
    return {"memory_markdown": markdown, "trajectory_spans": list(spans)}


def reason(folder: Path, content: object, max_states: int = 20) -> str:
    with pytest.raises(OutputError) as error:
        read(folder, content, max_states)
    assert str(folder) not in str(error.value)
    return error.value.reason


def test_spans_keep_the_agents_order(tmp_path: Path) -> None:
    output = read(tmp_path, memory(span("t2", 0, 0), span("t1", 3, 5)))
    assert output == MemoryOutput("text", (Span("t2", 0, 0), Span("t1", 3, 5)), ())
    assert output.states == 4


def test_text_alone_and_spans_alone_are_outputs(tmp_path: Path) -> None:
    assert read(tmp_path, memory()).spans == ()
    assert read(tmp_path, memory(span("t1", 9, 9), markdown="")).markdown == ""


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (span("t3", 0, 0), "unknown_trajectory"),
        (span("", 0, 0), "unknown_trajectory"),
        (span("\ud800", 0, 0), "unknown_trajectory"),
        (span("t1", 0, 10), "out_of_range"),
        (span("t1", -1, 2), "out_of_range"),
        (span("t1", 0, 10**4000), "out_of_range"),
        (span("t1", 5, 4), "reversed"),
        (span("t1", True, 1), "wrong_type"),
        (span("t1", 1.0, 2), "wrong_type"),
        (span("t1", "1", 2), "wrong_type"),
        (span("t1", None, 2), "wrong_type"),
        (span(1, 0, 0), "wrong_type"),
        (span(["t1"], 0, 0), "wrong_type"),
        ({"trajectory_id": "t1"}, "wrong_type"),
        ("t1", "wrong_type"),
        (None, "wrong_type"),
        ([[]], "wrong_type"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_what_names_no_states_is_dropped_alone(tmp_path: Path, written: object, why: str) -> None:
    output = read(tmp_path, memory(span("t1", 0, 1), written, span("t2", 2, 2)))
    assert output.spans == (Span("t1", 0, 1), Span("t2", 2, 2))
    assert [dropped.reason for dropped in output.dropped] == [why]
    output.dropped[0].written.encode()
    assert len(output.dropped[0].written) <= 201


@pytest.mark.parametrize(
    "written", [0, {"trajectory_id": "t9"}, span("t1", 0, 0)], ids=["numbers", "objects", "repeats"]
)
def test_a_flood_of_spans_costs_little(tmp_path: Path, written: object) -> None:
    item = json.dumps(written, separators=(",", ":"))
    count = 950_000 // (len(item) + 1)
    spans = ",".join([json.dumps(span("t1", 0, 0)), *[item] * count])
    began = time.process_time()
    output = read(tmp_path, f'{{"memory_markdown":"x","trajectory_spans":[{spans}]}}'.encode())
    assert time.process_time() - began < 1
    assert output.spans == (Span("t1", 0, 0),)
    assert [one.reason for one in output.dropped[100:]] == ["not_listed", "not_read"]
    assert sum(one.count for one in output.dropped) == count
    assert len(json.dumps([asdict(one) for one in output.dropped])) < 30_000


def test_spans_beyond_those_that_are_read(tmp_path: Path) -> None:
    fine = [span("t1", state, state) for state in range(10)]
    output = read(tmp_path, memory(*[0] * 1010, *fine), max_states=20)
    assert output.states == 10 and sum(one.count for one in output.dropped) == 1010
    output = read(tmp_path, memory(*[0] * 1015, *fine), max_states=20)
    assert output.states == 5 and output.dropped[-1] == DroppedSpan("not_read", "5 more", 5)


def test_a_state_counts_where_it_first_stands(tmp_path: Path) -> None:
    output = read(tmp_path, memory(span("t1", 4, 5), span("t1", 2, 9), span("t1", 5, 8), span("t2", 0, 0)))
    assert output.spans == (Span("t1", 4, 5), Span("t1", 2, 3), Span("t1", 6, 9), Span("t2", 0, 0))
    assert output.dropped == (
        DroppedSpan("repeated", json.dumps(span("t1", 2, 9))),
        DroppedSpan("repeated", json.dumps(span("t1", 5, 8))),
    )


def test_random_spans_agree_with_a_plain_count(tmp_path: Path) -> None:
    draw = random.Random(5)
    for _ in range(100):
        spans = [span(draw.choice(["t1", "t2", "t9"]), draw.randint(-1, 10), draw.randint(0, 10)) for _ in range(6)]
        valid = [
            [(one["trajectory_id"], state) for state in range(one["start_state_index"], one["end_state_index"] + 1)]
            for one in spans
            if 0 <= one["start_state_index"] <= one["end_state_index"] < STATES.get(one["trajectory_id"], 0)
        ]
        expected = list(dict.fromkeys(state for states in valid for state in states))
        output = read(tmp_path, memory(*spans))
        assert [
            (one.trajectory_id, state) for one in output.spans for state in range(one.first, one.last + 1)
        ] == expected
        if expected:
            assert reason(tmp_path, memory(*spans), max_states=len(expected) - 1) == "too_many_states"
        assert read(tmp_path, memory(*spans), max_states=len(expected)) == output


def test_only_usable_states_count_towards_the_limit(tmp_path: Path) -> None:
    spans = [span("t1", 0, 9), span("t1", 0, 9), span("t9", 0, 500), span("t1", 0, 10**9)]
    assert read(tmp_path, memory(*spans), max_states=10).states == 10
    assert reason(tmp_path, memory(*spans), max_states=9) == "too_many_states"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"I found it in t1.", "not_json"),
        (b'{"memory_markdown": "x", "trajectory_spans": []} and more', "not_json"),
        (b'{"memory_markdown": NaN, "trajectory_spans": []}', "not_json"),
        (b'{"memory_markdown": "x", "trajectory_spans": [Infinity]}', "not_json"),
        (b'{"memory_markdown": "a\nb", "trajectory_spans": []}', "not_json"),
        (b"[" * 200_000, "not_json"),
        (b'{"a":' * 100_000, "not_json"),
        (b'{"memory_markdown": "x", "trajectory_spans": [' + b"1" * 5000 + b"]}", "not_json"),
        (b"\xff\xfe", "not_utf8"),
        (b'{"memory_markdown": "\xed\xa0\x80", "trajectory_spans": []}', "not_utf8"),
        ([], "wrong_shape"),
        ("text", "wrong_shape"),
        (1, "wrong_shape"),
        (None, "wrong_shape"),
        ({}, "wrong_shape"),
        ({"memory_markdown": "x"}, "wrong_shape"),
        ({"trajectory_spans": []}, "wrong_shape"),
        (memory(markdown=None), "wrong_shape"),
        (memory(markdown=["x"]), "wrong_shape"),
        ({"memory_markdown": "x", "trajectory_spans": {}}, "wrong_shape"),
        ({"memory_markdown": "x", "trajectory_spans": None}, "wrong_shape"),
        (b'{"memory_markdown": "x", "memory_markdown": "y", "trajectory_spans": []}', "wrong_shape"),
        (b'{"memory_markdown": "x", "trajectory_spans": [{"a": 1, "a": 2}]}', "wrong_shape"),
        (memory(markdown=" \n"), "empty"),
        (memory(span("t9", 0, 0), markdown=""), "empty"),
        (b" " * (MAX_BYTES + 1), "too_large"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_output_is_refused_by_name(tmp_path: Path, content: object, why: str) -> None:
    assert reason(tmp_path, content) == why


def test_a_key_that_stands_twice_among_many_is_found_in_no_time(tmp_path: Path) -> None:
    keys = ",".join(f'"{number}":0' for number in range(80_000))
    assert reason(tmp_path, f'{{{keys},"79999":0}}'.encode()) == "wrong_shape"


def test_a_byte_order_mark_and_unknown_keys_do_no_harm(tmp_path: Path) -> None:
    content = memory(span("t1", 0, 0) | {"why": "best"}) | {"notes": [1.5]}
    assert read(tmp_path, b"\xef\xbb\xbf" + json.dumps(content).encode()).spans == (Span("t1", 0, 0),)


def test_text_is_well_formed(tmp_path: Path) -> None:
    output = read(tmp_path, b'{"memory_markdown": "a\\ud83db\\ud83d\\ude00", "trajectory_spans": ["\\udc00"]}')
    assert output.markdown == "a\ufffdb\U0001f600"
    output.dropped[0].written.encode()


def test_no_file_and_no_folder(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(OutputError) as error:
            read_memory(folder, STATES, 20)
        assert error.value.reason == "missing"


def _plant(kind: str, path: Path, outside: Path) -> None:
    outside.write_text(json.dumps(memory(span("t1", 0, 0))))
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "dangling link":
        path.symlink_to(outside.parent / "nothing")
    elif kind == "hard link":
        os.link(outside, path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "folder", "pipe", "socket"])
def test_only_a_file_of_its_own_is_read(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    _plant(kind, folder / MEMORY_FILE, tmp_path / "outside.json")
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OutputError) as error:
        read_memory(folder, STATES, 20)
    assert error.value.reason == "not_a_file"
    assert len(os.listdir("/proc/self/fd")) == descriptors
    remove_outputs(folder)
    assert not os.path.lexists(folder / MEMORY_FILE)
    assert json.loads((tmp_path / "outside.json").read_text())["trajectory_spans"]


def test_a_sparse_giant_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / MEMORY_FILE, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OutputError) as error:
        read_memory(tmp_path, STATES, 20)
    assert error.value.reason == "too_large"


def test_an_unreadable_file_is_named_so(tmp_path: Path) -> None:
    (tmp_path / MEMORY_FILE).write_text("{}")
    (tmp_path / MEMORY_FILE).chmod(0)
    with pytest.raises(OutputError) as error:
        read_memory(tmp_path, STATES, 20)
    readable = os.access(tmp_path / MEMORY_FILE, os.R_OK)  # root can
    assert error.value.reason == ("wrong_shape" if readable else "unreadable")


def test_answers(tmp_path: Path) -> None:
    def answer(content: object) -> str:
        (tmp_path / ANSWER_FILE).write_text(json.dumps(content))
        return read_answer(tmp_path)

    assert answer({"answer": " \\boxed{A}\n"}) == "\\boxed{A}"
    for content, why in [
        ({"answer": ""}, "no_answer"),
        ({"answer": " "}, "no_answer"),
        ({"answer": 7}, "wrong_shape"),
        ({}, "wrong_shape"),
        (["x"], "wrong_shape"),
    ]:
        with pytest.raises(OutputError) as error:
            answer(content)
        assert error.value.reason == why


def test_stale_outputs_go_and_an_answer_file_starts_anew(tmp_path: Path) -> None:
    write_output(tmp_path, MEMORY_FILE, memory())
    write_output(tmp_path, ANSWER_FILE, {"answer": "old"})
    remove_outputs(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [ANSWER_FILE]
    assert json.loads((tmp_path / ANSWER_FILE).read_text()) == {"answer": ""}
    (tmp_path / ANSWER_FILE).unlink()
    remove_outputs(tmp_path)
    assert not list(tmp_path.iterdir())


def test_rights_that_were_taken_away_do_not_keep_a_stale_output(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    (folder / MEMORY_FILE / "inner").mkdir(parents=True)
    (folder / MEMORY_FILE / "inner").chmod(0)
    (folder / MEMORY_FILE).chmod(0o500)
    folder.chmod(0o500)
    remove_outputs(folder)
    assert not (folder / MEMORY_FILE).exists()
    folder.chmod(0)
    remove_outputs(folder)
    write_output(folder, MEMORY_FILE, memory(span("t1", 0, 0)))
    assert read_memory(folder, STATES, 20).states == 1
    subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)


def test_a_deep_folder_in_place_of_an_output_goes(tmp_path: Path) -> None:
    make_deep(tmp_path, 1500, MEMORY_FILE)
    with pytest.raises(OutputError) as error:
        read_memory(tmp_path, STATES, 20)
    assert error.value.reason == "not_a_file"
    remove_outputs(tmp_path)
    assert list(tmp_path.iterdir()) == []
    make_deep(tmp_path, 1500, MEMORY_FILE)
    write_output(tmp_path, MEMORY_FILE, memory(span("t1", 0, 0)))
    assert read_memory(tmp_path, STATES, 20).states == 1
    assert [path.name for path in tmp_path.iterdir()] == [MEMORY_FILE]


def test_a_folder_that_cannot_be_removed_does_not_stand_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / MEMORY_FILE).mkdir()

    def fail(*_: object) -> None:
        raise OSError("the disk failed")

    monkeypatch.setattr(output_module, "remove_at", fail)
    remove_outputs(tmp_path)
    assert not (tmp_path / MEMORY_FILE).exists() and "the disk failed" in caplog.text


def test_writing_replaces_a_planted_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / MEMORY_FILE).symlink_to(outside)
    write_output(folder, MEMORY_FILE, memory(markdown="a\ud800b"))
    assert outside.read_text() == "untouched"
    assert read_memory(folder, STATES, 20).markdown == "a\ufffdb"
