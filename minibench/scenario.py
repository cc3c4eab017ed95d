"""What a policy module declares: scenarios, the logins they use, and how an outcome is decided."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minibench.recorder import Recorder

APPS = ("shop", "forum", "desk")
DOMAINS = {"shop": "web", "forum": "web", "desk": "enterprise"}
MIN_STATES, MAX_STATES = 5, 14


@dataclass(frozen=True)
class Login:
    """A login form: its path on the application, the text per CSS selector, and the submit button's selector."""

    path: str
    fields: Mapping[str, str]
    submit: str


@dataclass(frozen=True)
class Scenario:
    """One trajectory to record.

    `start_url` is a path on the application, `user` a key of the policy module's ``LOGINS`` (None: signed out).
    `policy` performs the actions. `outcome` returns True for success; it looks at the application's database,
    the answer sent to the user or the last page, so that a changed application changes the outcome.
    """

    id: str
    app: str
    goal: str
    start_url: str
    user: str | None
    policy: Callable[[Recorder], None]
    outcome: Callable[[Recorder], bool]


@dataclass(frozen=True)
class PolicySet:
    """The checked content of one ``policies/<app>.py``; `small` are the ids in the small haystack."""

    app: str
    scenarios: tuple[Scenario, ...]
    logins: Mapping[str, Login]
    small: tuple[str, ...]


def load_policies(app: str) -> PolicySet:
    """Import ``minibench.policies.<app>`` and check ids, logins and the small list.

    Raises:
        ValueError: unknown application, repeated or foreign scenario ids, an unknown login or small id.
    """
    if app not in APPS:
        raise ValueError(f"unknown application {app!r}: the applications are {', '.join(APPS)}")
    module: ModuleType = importlib.import_module(f"minibench.policies.{app}")
    policies = PolicySet(app, tuple(module.SCENARIOS), dict(module.LOGINS), tuple(module.SMALL))
    ids = [scenario.id for scenario in policies.scenarios]
    for scenario in policies.scenarios:
        if ids.count(scenario.id) > 1 or scenario.app != app or not scenario.id.startswith(f"{app}-"):
            raise ValueError(f"{module.__file__}: scenario id {scenario.id!r} is repeated or does not belong to {app}")
        if scenario.user is not None and scenario.user not in policies.logins:
            raise ValueError(f"{module.__file__}: {scenario.id} wants login {scenario.user!r}, which LOGINS lacks")
    unknown = sorted(set(policies.small) - set(ids))
    if unknown:
        raise ValueError(f"{module.__file__}: SMALL names unknown scenarios: {', '.join(unknown)}")
    return policies
