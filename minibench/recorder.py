"""Drives an application through BrowserGym and records what an agent would see after every action."""

from __future__ import annotations

import contextlib
import io
import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import browsergym.core.env as browsergym_env
import numpy as np
import playwright.sync_api
from browsergym.core.action.highlevel import HighLevelActionSet
from browsergym.core.task import AbstractBrowserTask
from browsergym.utils.obs import IGNORED_AXTREE_PROPERTIES, flatten_axtree_to_str
from PIL import Image

from minibench.scenario import DOMAINS, Login

CHROMIUM = "/usr/bin/chromium"
BROWSER_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)
PALETTE_COLOURS = 128
SETTLE_S = 0.3
_ACTIONS = HighLevelActionSet(subsets=["chat", "bid", "nav", "tab"], strict=False, multiaction=False)
_TREE_LINE = re.compile(r"^\t*\[(\w+)\] (\w+) (?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")(.*)$", re.MULTILINE)


class _SilentChat:
    """Stands in for BrowserGym's chat window, which would open a second browser."""

    recording_start_time = None

    def __init__(self, *_args: object, **_options: object) -> None:
        self.messages: list[dict[str, Any]] = []

    def add_message(self, role: str, msg: str) -> None:
        self.messages.append({"role": role, "timestamp": time.time(), "message": msg})

    def close(self) -> None:
        """Nothing to close."""


def _patch_browsergym() -> None:
    """Make BrowserGym use the system's Chromium and give stable observations (see minibench/README.md)."""
    launch = playwright.sync_api.BrowserType.launch

    def launch_system_chromium(self: Any, **options: Any) -> Any:
        options.setdefault("executable_path", CHROMIUM)
        options["args"] = [*(options.get("args") or []), *BROWSER_FLAGS]
        return launch(self, **options)

    def screenshot(page: Any) -> Any:
        # BrowserGym's own way sets and drops the device metrics, which leaves recent Chromium at 780x493
        return np.array(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))

    wait_for_dom = browsergym_env.BrowserEnv._wait_dom_loaded

    def wait_for_network(self: Any) -> None:
        wait_for_dom(self)
        # For tables that fill themselves by script. A page that never falls idle is recorded as it stands by then
        with contextlib.suppress(playwright.sync_api.Error):
            self.page.wait_for_load_state("networkidle", timeout=3000)

    playwright.sync_api.BrowserType.launch = launch_system_chromium  # type: ignore[method-assign]
    browsergym_env.extract_screenshot = screenshot
    browsergym_env.Chat = _SilentChat
    browsergym_env.BrowserEnv._wait_dom_loaded = wait_for_network


_patch_browsergym()


class _Task(AbstractBrowserTask):  # type: ignore[misc]
    """Signs in (unrecorded), opens the start page and never ends by itself."""

    def __init__(self, seed: int, goal: str, base_url: str, start_url: str, login: Login | None) -> None:
        super().__init__(seed)
        self.goal, self.base_url, self.start_url, self.login = goal, base_url, start_url, login
        self.slow_mo = 0
        self.locale, self.timezone_id = "en-US", "UTC"

    def setup(self, page: Any) -> tuple[str, dict[str, Any]]:
        if self.login is not None:
            page.goto(self.base_url + self.login.path)
            for selector, text in self.login.fields.items():
                page.fill(selector, text)
            page.click(self.login.submit)
            page.wait_for_load_state()
            if page.query_selector(self.login.submit) is not None and page.url.endswith(self.login.path):
                raise RuntimeError(f"signing in at {self.login.path} failed: the form is still there")
        page.goto(self.base_url + self.start_url)
        return self.goal, {}

    def validate(self, page: Any, chat_messages: list[dict[str, Any]]) -> tuple[float, bool, str, dict[str, Any]]:
        return 0.0, False, "", {}


class Recorder:
    """Records one trajectory: a state per observation, each with the action and thought that led to it.

    Attributes:
        tree: accessibility tree of the current page, one element a line.
        url: address of the current page.
        states: the states so far (state 0 has neither action nor thought).
        answer: the last message sent to the user, or "".
        last_error: BrowserGym's error of the last action, or "". A failed action is recorded all the same.
        database: the application's SQLite file.
    """

    def __init__(
        self,
        trajectory_id: str,
        app: str,
        goal: str,
        *,
        base_url: str,
        start_url: str,
        login: Login | None,
        database: Path,
        out: Path,
    ) -> None:
        self.trajectory_id, self.app, self.goal = trajectory_id, app, goal
        self.base_url, self.start_url, self.database = base_url, start_url, database
        self.tree = self.url = self.answer = self.last_error = ""
        self.states: list[dict[str, Any]] = []
        self._out = out
        (out / "screenshots" / trajectory_id).mkdir(parents=True, exist_ok=True)
        task_options = {"goal": goal, "base_url": base_url, "start_url": start_url, "login": login}
        self._env = browsergym_env.BrowserEnv(
            _Task, task_options, headless=True, action_mapping=_ACTIONS.to_python_code, pre_observation_delay=SETTLE_S
        )
        try:
            observation, _ = self._env.reset(seed=0)
            self._add_state(observation, None, None)
        except BaseException:
            self._env.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._env.close()

    # ---- actions ---------------------------------------------------------------------------------------------

    def click(self, role: str, name: str, thought: str, nth: int = 0) -> None:
        """Click the `nth` element whose role and name match the regular expressions (case-sensitive search)."""
        self.do(f"click({self.find(role, name, nth)!r})", thought)

    def hover(self, role: str, name: str, thought: str, nth: int = 0) -> None:
        """Move the mouse over an element."""
        self.do(f"hover({self.find(role, name, nth)!r})", thought)

    def fill(self, role: str, name: str, text: str, thought: str, nth: int = 0) -> None:
        """Replace the content of a text field."""
        self.do(f"fill({self.find(role, name, nth)!r}, {text!r})", thought)

    def select(self, name: str, option: str, thought: str, nth: int = 0) -> None:
        """Choose an option, by its label or value, in the combobox or list box that matches `name`."""
        self.do(f"select_option({self.find('combobox|listbox', name, nth)!r}, {option!r})", thought)

    def press(self, role: str, name: str, key: str, thought: str, nth: int = 0) -> None:
        """Press a key (such as "Enter") on an element."""
        self.do(f"press({self.find(role, name, nth)!r}, {key!r})", thought)

    def goto(self, path: str, thought: str) -> None:
        """Open a path of the application by its address."""
        self.do(f"goto({self.base_url + path!r})", thought)

    def back(self, thought: str) -> None:
        """Go back one page in the browser's history."""
        self.do("go_back()", thought)

    def scroll(self, dy: int, thought: str) -> None:
        """Scroll by `dy` pixels (positive: down)."""
        self.do(f"scroll(0, {dy})", thought)

    def send(self, text: str, thought: str) -> None:
        """Send the final message to the user."""
        self.answer = text
        self.do(f"send_msg_to_user({text!r})", thought)

    def do(self, action: str, thought: str) -> None:
        """Perform any BrowserGym action and record the state that it leads to."""
        observation, _, _, _, _ = self._env.step(action)
        self._add_state(observation, action, thought)

    # ---- what policies and outcomes look at --------------------------------------------------------------------

    def find(self, role: str, name: str, nth: int = 0) -> str:
        """Return the element id of the `nth` line of the tree whose role (full match) and name (search) match.

        Raises:
            LookupError: fewer matches; the message shows the lines of that role, or the whole tree.
        """
        matches, same_role = [], []
        for line in _TREE_LINE.finditer(self.tree):
            element, found_role, single_quoted, double_quoted, _ = line.groups()
            if not re.fullmatch(role, found_role):
                continue
            same_role.append(line.group(0).strip())
            if re.search(name, single_quoted if single_quoted is not None else double_quoted):
                matches.append(element)
        if len(matches) > nth:
            return matches[nth]
        shown = "\n".join(same_role) or self.tree
        raise LookupError(
            f"{self.trajectory_id}, state {len(self.states) - 1} ({self.url}): looked for match number {nth} of role "
            f"/{role}/ and name /{name}/, found {len(matches)}. On the page:\n{shown}"
        )

    def has(self, text: str) -> bool:
        """Whether `text` stands in the current tree."""
        return text in self.tree

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Read rows from the application's database (opened read-only)."""
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            return connection.execute(sql, tuple(parameters)).fetchall()
        finally:
            connection.close()

    def trajectory(self, success: bool) -> dict[str, Any]:
        """The finished trajectory as one object of ``trajectories.jsonl``."""
        return {
            "id": self.trajectory_id,
            "domain": DOMAINS[self.app],
            "environment": self.app,
            "goal": self.goal,
            "outcome": "success" if success else "failure",
            "start_url": self.base_url + self.start_url,
            "states": self.states,
        }

    def _add_state(self, observation: dict[str, Any], action: str | None, thought: str | None) -> None:
        self.tree = flatten_axtree_to_str(
            observation["axtree_object"],
            extra_properties=observation["extra_element_properties"],
            with_visible=True,
            with_clickable=True,
            ignored_roles=["LineBreak", "InlineTextBox"],
            ignored_properties=(*IGNORED_AXTREE_PROPERTIES, "url"),
        )
        self.url, self.last_error = observation["url"], observation["last_action_error"]
        step = len(self.states)
        screenshot = f"screenshots/{self.trajectory_id}/{step}.png"
        image = Image.fromarray(observation["screenshot"]).quantize(PALETTE_COLOURS, dither=Image.Dither.NONE)
        image.save(self._out / screenshot, "PNG", optimize=True)
        self.states.append(
            {
                "state_index": step,
                "step": step,
                "url": self.url,
                "action": action,
                "thought": thought,
                "accessibility_tree": self.tree,
                "screenshot": screenshot,
            }
        )
