"""Neutral run folders: ``run.json`` and, a step each, ``steps/NNNN.json`` with ``steps/NNNN.png``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

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
from lmev2.data.schema import Outcome

RUN_FILE = "run.json"
STEPS_FOLDER = "steps"

_STEP = re.compile(r"(\d+)\.json")


class _Object(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RunObject(_Object):
    """``run.json``: the goal, and how it ended: ``outcome``, or the cumulative ``reward`` (at least 1 is a success)."""

    goal: str
    outcome: Outcome | None = None
    reward: FiniteFloat | None = None
    start_url: str | None = None


class StepObject(_Object):
    """``steps/NNNN.json``: an observation, and the action and thought that the agent chose *on* it. ``error`` is the
    observation's ``last_action_error``: that of the action before."""

    url: str
    axtree_txt: str
    action: str | None = None
    thought: str | None = None
    error: str | None = None


AnyObject = TypeVar("AnyObject", bound=_Object)


def read_neutral_run(folder: Path) -> Run:
    """Read a neutral run folder.

    Raises:
        RunFault: files are missing or do not fit; names each.
    """
    faults: list[str] = []
    facts = _read(folder / RUN_FILE, RUN_FILE, RunObject, faults)
    success = None if facts is None else _success(facts, faults)
    paths, number_faults = numbered(list((folder / STEPS_FOLDER).glob("*.json")), _STEP)
    faults += number_faults
    if not paths:
        faults.append(f"found no {STEPS_FOLDER}/NNNN.json, expected at least one")
    steps = [step for path in paths if (step := _step(path, faults)) is not None]
    if not faults:
        faults += alignment_faults(steps)
    if faults or facts is None or success is None:
        raise RunFault(faults)
    return Run(facts.goal, success, facts.start_url, tuple(steps), tuple(run_notes(steps)))


def _success(facts: RunObject, faults: list[str]) -> bool | None:
    if facts.reward is None and facts.outcome is None:
        faults.append(f"{RUN_FILE}: found neither 'outcome' nor 'reward', expected one of them")
        return None
    by_reward = None if facts.reward is None else facts.reward >= SUCCESS_REWARD
    by_outcome = None if facts.outcome is None else facts.outcome == "success"
    if None not in (by_reward, by_outcome) and by_reward != by_outcome:
        faults.append(f"{RUN_FILE}: found outcome {facts.outcome!r} with reward {facts.reward}; give one of them")
        return None
    return by_outcome if by_reward is None else by_reward


def _step(path: Path, faults: list[str]) -> Step | None:
    name = f"{STEPS_FOLDER}/{path.name}"
    picture = path.with_suffix(".png")
    if not picture.is_file():
        faults.append(f"{name}: found no {picture.name} beside it, expected the screenshot there")
    value = _read(path, name, StepObject, faults)
    if value is None:
        return None
    action = clean_action(value.action)
    return Step(name, value.url, value.axtree_txt, action, value.thought, value.error or "", Picture(picture))


def _read(path: Path, name: str, model: type[AnyObject], faults: list[str]) -> AnyObject | None:
    if not path.is_file():
        faults.append(f"found no {name}")
        return None
    try:
        value: Any = json.loads(path.read_bytes().decode("utf-8"), object_pairs_hook=unique_keys)
        return model.model_validate(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            place = ".".join(map(str, detail["loc"]))
            faults.append(f"{name}: field {place!r}: {detail['msg']}" if place else f"{name}: {detail['msg']}")
    except (ValueError, RecursionError) as error:
        faults.append(f"{name}: found malformed JSON ({error}), expected one JSON object")
    except OSError as error:
        faults.append(f"{name}: cannot be read ({error.strerror})")
    return None
