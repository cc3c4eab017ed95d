"""Recorded BrowserGym runs, made up on the spot: neutral run folders, and experiment folders as AgentLab writes them."""

from __future__ import annotations

import gzip
import json
import pickle
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from dataroot import write_png

from lmev2.cli import main

ACTIONS = ["click('a0')", "fill('b1', 'x')", None]
TIERS = ("small", "medium")


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def neutral_step(number: int) -> dict[str, Any]:
    return {
        "url": f"http://example.test/{number}",
        "action": ACTIONS[number],
        "thought": None if ACTIONS[number] is None else f"thought {number}",
        "axtree_txt": f"RootWebArea 'Page {number}'\n\t[a{number}] link 'L', clickable, visible",
        "error": "",
    }


def neutral_run(folder: Path, goal: str = "Find it", **facts: Any) -> Path:
    write_json(folder / "run.json", {"goal": goal, **(facts or {"reward": 1.0})})
    for number in range(len(ACTIONS)):
        write_json(folder / f"steps/{number:04}.json", neutral_step(number))
        write_png(folder / f"steps/{number:04}.png", number)
    return folder


@dataclass
class StepInfo:
    step: int
    obs: Any
    reward: Any = 0
    action: str | None = None
    agent_info: Any = field(default_factory=dict)
    profiling: Any = None


class Message(dict):  # type: ignore[type-arg]
    """A message that is a dict, as AgentLab's are."""


AgentInfo = make_dataclass("AgentInfo", ["think", "chat_messages"])
Discussion = make_dataclass("Discussion", ["messages"])
HOMES = {
    "agentlab.experiments.loop": [StepInfo],
    "browsergym.experiments.agent": [AgentInfo],
    "agentlab.llm.llm_utils": [Message, Discussion],
}


@contextmanager
def recorders() -> Iterator[None]:
    """The classes stand in the modules of the recording libraries, which are gone again when the pickles are read."""
    names = {name for module in HOMES for name in _parents(module)}
    for name in names:
        sys.modules[name] = ModuleType(name)
    for module, kinds in HOMES.items():
        for kind in kinds:
            kind.__module__ = module
            kind.__qualname__ = kind.__name__
            setattr(sys.modules[module], kind.__name__, kind)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def observation(number: int, **changes: Any) -> dict[str, Any]:
    step = neutral_step(number)
    value = {
        "chat_messages": ({"role": "user", "message": "Find it"},),
        "goal": "legacy goal",
        "goal_object": None,
        "open_pages_urls": ("http://example.test/other", step["url"]),
        "active_page_index": np.asarray([1]),
        "url": step["url"],
        "axtree_txt": step["axtree_txt"],
        "dom_txt": "<html>",
        "last_action": "" if number == 0 else ACTIONS[number - 1],
        "last_action_error": "TimeoutError: x" if number == 2 else "",
        "elapsed_time": np.asarray([0.5]),
        "extra_element_properties": OrderedDict(a0={"visibility": np.float64(1.0)}),
    }
    value.update(changes)
    return {name: item for name, item in value.items() if item is not ...}


def agent_info(number: int, plain: bool) -> Any:
    thought = neutral_step(number)["thought"]
    if plain:
        return defaultdict(list, think=thought, stats={"n": 1})
    return AgentInfo(thought, Discussion([Message(role="user", content="hi")]))


def agentlab_run(
    folder: Path,
    *,
    reward: float = 1.0,
    summary: bool = True,
    protocol: int = 4,
    plain: bool = False,
    pictures: bool = True,
    change: dict[int, dict[str, Any]] | None = None,
) -> Path:
    """An experiment folder as AgentLab writes it; ``change`` alters observations by step."""
    folder.mkdir(parents=True)
    goal = ({"type": "text", "text": "Find it"}, {"type": "image_url", "image_url": {"url": "data:x"}})
    with recorders():
        for number in range(len(ACTIONS)):
            obs = observation(number, **(change or {}).get(number, {}))
            step = StepInfo(number, obs, reward if number == 2 else 0, ACTIONS[number], agent_info(number, plain))
            step.obs = None if "broken" in obs else step.obs
            write_pickle(folder / f"step_{number}.pkl.gz", step, protocol)
        write_pickle(folder / "goal_object.pkl.gz", goal, protocol)
    for number in range(len(ACTIONS)) if pictures else ():
        write_png(folder / f"screenshot_step_{number}.png", number)
    (folder / "exp_args.pkl").write_bytes(b"never opened")
    (folder / "package_versions.txt").write_text("numpy==2\n")
    if summary:
        write_json(folder / "summary_info.json", {"n_steps": 2, "cum_reward": reward, "err_msg": None})
    return folder


def write_pickle(path: Path, value: Any, protocol: int = 4) -> None:
    with gzip.open(path, "wb") as stream:
        pickle.dump(value, stream, protocol=protocol)


def arguments(out: Path, *sources: Path) -> list[str]:
    names = [str(source) for source in sources]
    return ["import-browsergym", *names, "--out", str(out), "--domain", "web", "--environment", "testshop"]


def refusal(capsys: pytest.CaptureFixture[str], out: Path, *sources: Path) -> str:
    before = sorted(out.rglob("*"))
    assert main(arguments(out, *sources)) == 1
    shown, err = capsys.readouterr()
    assert shown == ""
    assert err.startswith("Nothing was imported.\n")
    assert sorted(out.rglob("*")) == before
    return err
