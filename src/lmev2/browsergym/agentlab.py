"""Experiment folders of AgentLab, and of BrowserGym's own experiment loop: ``step_N.pkl.gz`` and what lies beside."""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lmev2.browsergym.pickles import PickleFault, array_of, field_of, read_pickle
from lmev2.browsergym.run import (
    SUCCESS_REWARD,
    Picture,
    Run,
    RunFault,
    Step,
    alignment_faults,
    clean_action,
    numbered,
    run_notes,
)
from lmev2.data.jsonl import unique_keys

GOAL_FILE = "goal_object.pkl.gz"
SUMMARY_FILE = "summary_info.json"
STEP_GLOB = "step_*.pkl.gz"

_STEP = re.compile(r"step_(\d+)\.pkl\.gz")
_PICTURES = ("screenshot_step_{}.png", "screenshot_step_{}.jpg")


@dataclass(frozen=True)
class _Observed:
    """A step with what only this kind of folder knows of it."""

    step: Step
    reward: float
    last_action: Any
    goal: Any
    goal_object: Any


def read_agentlab_run(folder: Path) -> Run:
    """Read an experiment folder. Its pickles are read as data (:mod:`lmev2.browsergym.pickles`).

    Raises:
        RunFault: files are missing or do not fit; names each.
    """
    paths, faults = numbered(list(folder.glob(STEP_GLOB)), _STEP)
    if not paths:
        raise RunFault([f"found no step_N.pkl.gz in {folder.name}: the run never came to its first observation"])
    notes: list[str] = []
    observed = _observed(folder, paths, faults, notes)
    summary = _summary(folder, faults, notes)
    if faults:
        raise RunFault(faults)
    steps = [item.step for item in observed]
    goal = _goal(folder, observed[0], faults, notes)
    faults += alignment_faults(steps) + _last_action_faults(observed)
    faults += _reward_faults(observed) if summary is None else []
    if faults:
        raise RunFault(faults)
    reward = summary if summary is not None else sum(item.reward for item in observed)
    return Run(goal, reward >= SUCCESS_REWARD, None, tuple(steps), (*notes, *run_notes(steps)))


def _observed(folder: Path, paths: Sequence[Path], faults: list[str], notes: list[str]) -> list[_Observed]:
    observed = []
    for number, path in enumerate(paths):
        try:
            info = read_pickle(path)
        except (PickleFault, OSError) as error:
            faults.append(f"{path.name}: {error}")
            continue
        observation = field_of(info, "obs")
        if observation is None and number == len(paths) - 1 and number > 0:
            notes.append(f"{path.name} holds no observation, because the run broke off, and is left out")
        else:
            item = _read_step(folder, path.name, number, info, observation, faults)
            observed += [item] if item is not None else []
    return observed


def _read_step(
    folder: Path, name: str, number: int, info: Any, observation: Any, faults: list[str]
) -> _Observed | None:
    if not isinstance(observation, dict):
        faults.append(f"{name}: found {_kind(observation)} as observation, expected BrowserGym's dict")
        return None
    before = len(faults)
    url, tree = _url(observation, name, faults), _tree(observation, name, faults)
    picture = _picture(folder, number, observation, name, faults)
    action, thought = field_of(info, "action"), field_of(field_of(info, "agent_info"), "think")
    error = observation.get("last_action_error")
    if not isinstance(action, str | None):
        faults.append(f"{name}: found {_kind(action)} as action, expected text")
    if len(faults) > before or picture is None:
        return None
    step = Step(
        name,
        url,
        tree,
        clean_action(action),
        thought if isinstance(thought, str) else None,
        error if isinstance(error, str) else "",
        picture,
    )
    # The rest of an observation, which can be large, is not kept.
    goal, goal_object = observation.get("goal"), observation.get("goal_object")
    return _Observed(step, _number(field_of(info, "reward")), observation.get("last_action"), goal, goal_object)


def _kind(value: Any) -> str:
    return getattr(value, "origin", "") or type(value).__name__


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return _as_float(value)
    array = array_of(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else 0.0


def _as_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _url(observation: dict[str, Any], name: str, faults: list[str]) -> str:
    """Address of the active page; older recordings have it in the list of open pages only."""
    url = observation.get("url")
    pages = observation.get("open_pages_urls")
    if url is None and isinstance(pages, list | tuple):
        index = _number(observation.get("active_page_index"))
        active = int(index) if math.isfinite(index) else -1
        url = pages[active] if 0 <= active < len(pages) else None
    if isinstance(url, str):
        return url
    faults.append(f"{name}: found {_kind(url)} as 'url' of the observation, expected text")
    return ""


def _tree(observation: dict[str, Any], name: str, faults: list[str]) -> str:
    text, tree = observation.get("axtree_txt"), observation.get("axtree_object")
    if isinstance(text, str):
        return text
    if tree is None:
        faults.append(
            f"{name}: found neither 'axtree_txt' nor 'axtree_object' in the observation; the run was recorded without "
            "accessibility trees"
        )
        return ""
    try:
        flatten = importlib.import_module("browsergym.utils.obs").flatten_axtree_to_str
    except ImportError:
        faults.append(
            f"{name}: found 'axtree_object' without 'axtree_txt' in the observation; to make the text of it, install "
            "BrowserGym here (pip install browsergym-core)"
        )
        return ""
    try:
        return str(
            flatten(
                tree,
                extra_properties=observation.get("extra_element_properties"),
                with_visible=True,
                with_clickable=True,
            )
        )
    except Exception as error:  # what it was given may be anything
        faults.append(f"{name}: BrowserGym could not make text of 'axtree_object' ({type(error).__name__}: {error})")
        return ""


def _picture(folder: Path, number: int, observation: dict[str, Any], name: str, faults: list[str]) -> Picture | None:
    for pattern in _PICTURES:
        path = folder / pattern.format(number)
        if path.is_file():
            return Picture(path)
    pixels = array_of(observation.get("screenshot"))
    if pixels is not None and pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8 and pixels.size:
        return Picture(pixels)
    faults.append(
        f"{name}: found neither {_PICTURES[0].format(number)} beside it nor pixels in the observation, expected a "
        "screenshot of every step"
    )
    return None


def _goal(folder: Path, first: _Observed, faults: list[str], notes: list[str]) -> str:
    """Texts of the goal object, which lies in a file of its own, or the observation's legacy goal."""
    messages = first.goal_object
    if not messages and (folder / GOAL_FILE).is_file():
        try:
            messages = read_pickle(folder / GOAL_FILE)
        except (PickleFault, OSError) as error:
            faults.append(f"{GOAL_FILE}: {error}")
    if isinstance(messages, list | tuple) and messages:
        texts = [text for message in messages if isinstance(text := field_of(message, "text"), str)]
        if len(texts) < len(messages):
            notes.append(f"{len(messages) - len(texts)} image(s) of the goal are left out: a goal is text")
        if texts:
            return "\n".join(texts)
    if isinstance(first.goal, str) and first.goal.strip():
        return first.goal
    faults.append(f"found no goal: neither {GOAL_FILE} nor the first observation has a text of it")
    return ""


def _summary(folder: Path, faults: list[str], notes: list[str]) -> float | None:
    """The cumulative reward by the summary; None without one, and then that of the steps counts."""
    path = folder / SUMMARY_FILE
    if not path.is_file() or not path.stat().st_size:
        notes.append(f"there is no {SUMMARY_FILE}, because the run did not end; its outcome is that of its steps")
        return None
    try:
        value = json.loads(path.read_bytes().decode("utf-8"), object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        faults.append(f"{SUMMARY_FILE}: found malformed JSON ({error}), expected one JSON object")
        return None
    reward = field_of(value, "cum_reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        faults.append(f"{SUMMARY_FILE}: found {_kind(reward)} as 'cum_reward', expected a number")
        return None
    if not math.isfinite(_as_float(reward)):
        faults.append(f"{SUMMARY_FILE}: found {reward!r:.20} as 'cum_reward', expected a finite number")
        return None
    if field_of(value, "err_msg"):
        notes.append("the run ended with an error")
    return float(reward)


def _reward_faults(observed: Sequence[_Observed]) -> list[str]:
    """Rewards of steps that say nothing of how the run ended."""
    names = [item.step.name for item in observed if not math.isfinite(item.reward)]
    return [f"{names[0]}: found a reward that is no finite number, expected one in every step"] if names else []


def _last_action_faults(observed: Sequence[_Observed]) -> list[str]:
    """Observations whose own record of the action that led to them is another one."""
    faults = []
    for before, after in pairwise(observed):
        told, taken = after.last_action, before.step.action
        if isinstance(told, str) and clean_action(told) != taken:
            faults.append(
                f"{after.step.name}: found {told!r:.80} as the observation's 'last_action', expected {taken!r:.80}, "
                f"the action of {before.step.name}"
            )
    return faults[:1]
