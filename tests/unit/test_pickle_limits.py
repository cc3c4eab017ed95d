"""Pickles that ask for much memory in few bytes are refused before anything is built; large honest steps are read."""

from __future__ import annotations

import gzip
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsergymworld import Message, agentlab_run, recorders, refusal

from lmev2.browsergym import pickle_limits, pickles
from lmev2.browsergym.pickles import Inert, PickleFault, array_of, load_data

HUGE = 1 << 26


def refused(data: bytes) -> tuple[str, int]:
    """The message, and the most memory in bytes that it took to come to it."""
    tracemalloc.start()
    try:
        with pytest.raises(PickleFault) as caught:
            load_data(data)
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02]r" + struct.pack("<I", HUGE) + b".",
        b"]p%d\n." % HUGE,
        b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b".",
    ],
)
def test_a_number_that_no_operation_stands_for_is_refused(data: bytes) -> None:
    text, memory = refused(data)
    assert "the pickle gives an object the number" in text
    assert memory < 1_000_000


def test_a_run_with_such_a_step_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = agentlab_run(tmp_path / "run")
    with gzip.open(source / "step_1.pkl.gz", "wb") as stream:
        stream.write(b"\x80\x02]r" + struct.pack("<I", HUGE) + b".")
    error = refusal(capsys, tmp_path / "out", source)
    assert f"{source}: step_1.pkl.gz: the pickle gives an object the number 67,108,864 in operation 3" in error


@pytest.mark.parametrize("operation", [b"}", b"]", b"\x8f", b")\x85", b"(d", b"(l"])
def test_too_many_objects_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch, operation: bytes) -> None:
    monkeypatch.setattr(pickle_limits, "MOST_CONTAINERS", 1000)
    load_data(b"\x80\x04" + operation * 1000 + b".")
    text, memory = refused(b"\x80\x04" + operation * 100_000 + b".")
    assert "the pickle makes over 1,000 lists, dicts and other objects" in text
    assert memory < 1_000_000


def test_too_many_operations_are_refused_before_they_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_limits, "MOST_OPERATIONS", 1000)
    load_data(b"\x80\x04" + b"N" * 900 + b".")
    text, memory = refused(b"\x80\x04" + b"K\x01" * 100_000 + b".")
    assert "the pickle holds over 1,000 operations" in text
    assert memory < 1_000_000


COPIES = {
    "a list": (b"(" + b"N" * 1000 + b"l", b"cbuiltins\nlist\n", b"\x85R"),
    "a tuple": (b"(" + b"N" * 1000 + b"l", b"cbuiltins\ntuple\n", b"\x85R"),
    "arguments": (b"(" + b"N" * 1000 + b"t", b"cagentlab.x\nY\n", b"\x81"),
}


@pytest.mark.parametrize("case", COPIES)
def test_objects_that_are_copied_over_and_over_are_refused(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    content, kind, call = COPIES[case]
    monkeypatch.setattr(pickles, "MOST_OPERATIONS", 50_000)
    head = b"\x80\x04" + content + b"q\x000" + kind + b"q\x010"
    load_data(head + (b"h\x01h\x00" + call) * 40 + b".")
    text, memory = refused(head + (b"h\x01h\x00" + call) * 5000 + b".")
    assert "copies its objects over and over" in text
    assert memory < 5_000_000


def test_states_that_are_copied_over_and_over_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MOST_OPERATIONS", 50_000)
    state = b"}(" + b"".join(b"M" + struct.pack("<H", number) + b"N" for number in range(1000)) + b"u"
    head = b"\x80\x04" + state + b"q\x000" + b"cagentlab.x\nY\n" + b"q\x010"
    text, memory = refused(head + b"h\x01)\x81h\x00b" * 5000 + b".")
    assert "copies its objects over and over" in text
    assert memory < 10_000_000


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_large_honest_steps_are_read(protocol: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (720, 1280, 3), dtype=np.uint8)
    with recorders():
        value: dict[str, Any] = {
            "axtree_txt": "\t[a1] link 'Straße', clickable, visible\n" * 80_000,
            "screenshot": pixels,
            "messages": [Message(role="user", content=str(number)) for number in range(1000)],
        }
        read = load_data(pickle.dumps({"obs": value}, protocol=protocol))["obs"]
    assert len(value["axtree_txt"]) > 3_000_000
    assert read["axtree_txt"] == value["axtree_txt"]
    array = array_of(read["screenshot"])
    assert array is not None and np.array_equal(array, pixels)
    assert isinstance(read["messages"][999], Inert) and read["messages"][999].items["content"] == "999"


def test_a_large_tree_of_objects_is_read() -> None:
    node = {"role": {"type": "role", "value": "link"}, "ignored": False, "childIds": ["1", "2"]}
    tree = {
        "nodes": [
            {
                **{name: dict(item) if isinstance(item, dict) else item for name, item in node.items()},
                "nodeId": str(number),
                "name": {"type": "computedString", "value": f"Link to record {number}"},
                "properties": [{"name": "focusable", "value": {"type": "boolean", "value": True}}],
            }
            for number in range(40_000)
        ]
    }
    data = pickle.dumps(tree)
    assert len(data) > 3_000_000
    assert load_data(data) == tree
