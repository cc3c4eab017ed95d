"""Pickles of recorded runs are read as data: nothing in them is imported, called or run."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsergymworld import TIERS, AgentInfo, Message, agentlab_run, neutral_run, recorders, refusal, write_pickle

from lmev2.browsergym.importing import import_runs
from lmev2.browsergym.pickles import Inert, PickleFault, array_of, field_of, load_data


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("plain", [True, False])
def test_pickles_of_every_protocol_give_the_same(tmp_path: Path, protocol: int, plain: bool) -> None:
    source = agentlab_run(tmp_path / "run", protocol=protocol, plain=plain)
    report = import_runs([source], tmp_path / "out", "web", "shop", TIERS)
    assert (
        report.runs[0].trajectory_id
        == import_runs([neutral_run(tmp_path / "neutral")], tmp_path / "other", "web", "shop", TIERS)
        .runs[0]
        .trajectory_id
    )
    assert not [name for name in sys.modules if name.split(".")[0] == "agentlab"]


class Attack:
    def __init__(self, function: Any, *values: Any):
        self.call = function, values

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    ("function", "values"),
    [(os.system, ("touch mark",)), (eval, ("open('mark', 'w')",)), (getattr, ("x", "upper")), (open, ("mark", "w"))],
)
@pytest.mark.parametrize("place", ["step", "goal"])
def test_a_pickle_cannot_run_anything(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    function: Any,
    values: tuple[str, ...],
    place: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = agentlab_run(tmp_path / "run", protocol=2)
    file = "step_1.pkl.gz" if place == "step" else "goal_object.pkl.gz"
    write_pickle(source / file, {"obs": Attack(function, *values)}, protocol=2)
    assert pickle.loads(pickle.dumps(Attack(str, "fires"))) == "fires"
    error = refusal(capsys, tmp_path / "out", source)
    assert f"{file}: found '{function.__module__}.{function.__name__}', which is neither plain data" in error
    assert not (tmp_path / "mark").exists()


def test_stand_ins_keep_what_they_were_given_and_do_nothing() -> None:
    with recorders():
        data = pickle.dumps({"message": Message(role="user"), "info": AgentInfo("t", [1])})
    value = load_data(data)
    message, info = value["message"], value["info"]
    assert isinstance(message, Inert) and message.origin == "agentlab.llm.llm_utils.Message"
    assert (message.items, field_of(message, "role")) == ({"role": "user"}, "user")
    assert (info.origin, info.fields) == (
        "browsergym.experiments.agent.AgentInfo",
        {"think": "t", "chat_messages": [1]},
    )
    assert field_of(info, "absent") is None and field_of(3, "think") is None
    # The name of a class of another load never becomes what an earlier load set on it.
    assert type(load_data(data)["info"]) is not type(info)


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
        np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        np.asarray([0.5]),
        np.asarray([1, 2], dtype=">i4"),
        np.asarray([True, False]),
        np.zeros((0, 3), dtype=np.float32),
    ],
)
def test_arrays_of_numbers_are_read_without_numpys_loader(protocol: int, array: np.ndarray[Any, Any]) -> None:
    read = array_of(load_data(pickle.dumps(array, protocol=protocol)))
    assert read is not None
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert np.array_equal(read, array)


def test_other_arrays_are_no_numbers() -> None:
    for array in (np.asarray([{}], dtype=object), np.asarray(["x"]), np.zeros(2, dtype=[("a", "i4")])):
        assert array_of(load_data(pickle.dumps(array))) is None
    number = array_of(load_data(pickle.dumps(np.float64(0.25))))
    assert number is not None and float(number) == 0.25
    assert array_of(5) is None and array_of([1]) is None


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x80\x04K", b"garbage", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f."]
)
def test_damaged_pickles_are_told(data: bytes) -> None:
    with pytest.raises(PickleFault, match="damaged"):
        load_data(data)


def test_a_cut_step_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = agentlab_run(tmp_path / "run")
    path = source / "step_1.pkl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    assert "step_1.pkl.gz: the file is damaged or cut" in refusal(capsys, tmp_path / "out", source)
    path.write_bytes(b"plain")
    assert "step_1.pkl.gz: the file is damaged or cut" in refusal(capsys, tmp_path / "out", source)
