"""What the rules of a note look at: a trajectory's parsed trees, its pages, and its steps in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from lmev2.actions import ActionCall, parse_action
from lmev2.trajectory import State, Trajectory
from lmev2.tree import Tree, clean

_STATE_FLAGS = ("checked", "selected", "expanded", "pressed", "disabled")
_CLICKS = {
    "click": "click",
    "dblclick": "double-click",
    "hover": "hover over",
    "focus": "focus",
    "clear": "clear",
    "check": "tick",
    "uncheck": "untick",
}
# The names of these repeat what stands inside them.
_CONTAINERS = frozenset(
    {"LayoutTable", "LayoutTableCell", "LayoutTableRow", "cell", "gridcell", "listitem", "row", "rowgroup", "table"}
)
_PLACE_ROLES = frozenset(
    {"dialog", "form", "group", "list", "menu", "navigation", "radiogroup", "region", "row", "table", "tabpanel"}
)


def shorten(text: str, limit: int) -> str:
    """Text cut at a word end so that it has at most ``limit`` characters, the last of which is then ``…``."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > limit // 2 else cut).rstrip(" ,;:") + "…"


def quote(text: str, limit: int) -> str:
    """A literal of the trajectory as notes show it: cleaned, shortened, in double quotes."""
    return '"' + shorten(clean(text).replace('"', "'"), limit) + '"'


class SeenLine(NamedTuple):
    """One line of a state as a user sees it; ids, focus, visibility and addresses do not count."""

    role: str
    label: str
    value: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One action of the run.

    Attributes:
        index: the state that it led to.
        verb: name of the BrowserGym call, such as ``click``.
        words: the action in words, such as ``click the button "Submit"``.
        label: label of the element it acted on; empty without one.
        target: state index and position of that element; None without one.
        page, page_after: names of the pages before and after.
        changed: something a user sees, or the address, is different afterwards.
        typed: texts that the action entered.
        messages: messages that the state after shows and the state before does not.
    """

    index: int
    verb: str
    words: str
    label: str
    target: tuple[int, int] | None
    page: str
    page_after: str
    changed: bool
    typed: tuple[str, ...]
    messages: tuple[str, ...]


def _arguments(call: ActionCall) -> tuple[Any, ...]:
    return (*call.args, *call.keywords.values())


class RunView:
    """A trajectory with its trees parsed once for all rules.

    Attributes:
        trees: one parsed tree a state.
        pages: one page name a state: the title of the page's main document, else the path of its address.
    """

    def __init__(self, trajectory: Trajectory, literal_chars: int) -> None:
        self.trajectory = trajectory
        self.states: tuple[State, ...] = tuple(trajectory.states)
        self.trees = [Tree(state.tree) for state in self.states]
        self.pages = [_page_name(tree, state) for tree, state in zip(self.trees, self.states, strict=True)]
        self._limit = literal_chars

    def q(self, text: str) -> str:
        """A literal in quotes, at most as long as the settings allow."""
        return quote(text, self._limit)

    @cached_property
    def seen(self) -> list[dict[SeenLine, int]]:
        """Per state, what a user sees: lines with the position of their first occurrence."""
        return [_seen_lines(tree) for tree in self.trees]

    @cached_property
    def page_states(self) -> dict[str, list[int]]:
        """States of each page, pages in order of their first visit."""
        found: dict[str, list[int]] = {}
        for index, page in enumerate(self.pages):
            found.setdefault(page, []).append(index)
        return found

    @cached_property
    def site_wide(self) -> frozenset[tuple[str, str]]:
        """Role and label of what the site shows on most pages: at least three pages and 60 % of the run's pages, or,
        in a run of fewer pages, whatever lies in a navigation, banner or footer."""
        if len(self.page_states) >= 3:
            counts = Counter(
                key
                for states in self.page_states.values()
                for key in {(line.role, line.label) for index in states for line in self.seen[index]}
            )
            least = max(3, round(0.6 * len(self.page_states)))
            return frozenset(key for key, count in counts.items() if count >= least)
        return frozenset(
            (node.role, tree.text(position))
            for tree in self.trees
            for landmark in tree.with_role("navigation", "banner", "contentinfo", "menubar")
            for position in tree.subtree(landmark)
            if (node := tree.nodes[position]).role != "StaticText"
        )

    @cached_property
    def steps(self) -> list[Step]:
        """The run's actions in order; states without an action give none."""
        return [
            step
            for index, state in enumerate(self.states)
            if index > 0 and state.action
            for step in self.steps_to(index)
        ]

    def steps_to(self, index: int) -> list[Step]:
        """What led to a state, at least one step; where no action is recorded, one without verb and words.

        Args:
            index: the state, at least 1.
        """
        action = self.states[index].action or ""
        before = set(self.trees[index - 1].messages())
        messages = tuple(text for text in self.trees[index].messages() if text not in before)
        changed = (
            self.states[index].url != self.states[index - 1].url
            or self.seen[index].keys() != self.seen[index - 1].keys()
        )
        calls = parse_action(action) or (ActionCall(""),)
        return [
            Step(
                index,
                call.name,
                self._words(index, call) if action else "",
                self._label(target) if target else "",
                target,
                self.pages[index - 1],
                self.pages[index],
                changed,
                tuple(clean(text) for text in _arguments(call) if isinstance(text, str) and text not in call.elements),
                messages if call is calls[-1] else (),
            )
            for call in calls
            for target in [self._find(index, call)]
        ]

    def _find(self, index: int, call: ActionCall, number: int = 0) -> tuple[int, int] | None:
        """State and position of an element that a call names, in the latest state before that has it."""
        if len(call.elements) <= number:
            return None
        for state in range(index - 1, -1, -1):
            position = self.trees[state].by_bid.get(call.elements[number])
            if position is not None:
                return state, position
        return None

    def _label(self, target: tuple[int, int]) -> str:
        tree = self.trees[target[0]]
        return tree.label(target[1]) or tree.text(target[1])

    def place(self, target: tuple[int, int]) -> str:
        """Where on its page an element lies: the nearest named part around it, a row by its first cell; or empty."""
        tree, own = self.trees[target[0]], self._label(target)
        for ancestor in tree.ancestors(target[1]):
            node = tree.nodes[ancestor]
            if node.role not in _PLACE_ROLES:
                continue
            if node.role == "row":
                texts = (tree.text(cell) for cell in tree.cells(ancestor))
                text = next((text for text in texts if text and text != own), "")
            else:
                text = node.label
            if text and text != own:
                return f"{node.role} {quote(text, min(self._limit, 60))}"
        return ""

    def _element(self, index: int, call: ActionCall, number: int = 0) -> str:
        target = self._find(index, call, number)
        if target is None:
            return "an element"
        node, label = self.trees[target[0]].nodes[target[1]], self._label(target)
        role = {"textbox": "field", "searchbox": "field", "LabelText": "label"}.get(node.role, node.role or "element")
        if not label:
            place = self.place(target)
            return f"a {role} in {place}" if place else f"a {role} without a name"
        same = sum(1 for other in self.trees[target[0]].nodes if other.role == node.role and other.label == label)
        place = self.place(target) if same > 1 or node.role == "radio" else ""
        return f"the {role} {self.q(label)}" + (f" in {place}" if place else "")

    def _words(self, index: int, call: ActionCall) -> str:
        if call.name in _CLICKS:
            return f"{_CLICKS[call.name]} {self._element(index, call)}"
        words = _WORDS.get(call.name)
        if words is not None and len(_arguments(call)) >= words.arguments:
            make: Callable[[RunView, int, ActionCall], str] = words.make
            return make(self, index, call)
        return f"do {self.q(self.states[index].action or '')}" if not call.name else self._other(call)

    def _other(self, call: ActionCall) -> str:
        texts = [self.q(argument) for argument in _arguments(call) if isinstance(argument, str)]
        return " ".join([call.name.replace("_", " "), *texts])


class _Words(NamedTuple):
    arguments: int
    make: Callable[[RunView, int, ActionCall], str]


def _scroll(_: RunView, __: int, call: ActionCall) -> str:
    down = _arguments(call)[1] if isinstance(_arguments(call)[1], int | float) else 0
    return "scroll down" if down > 0 else "scroll up" if down < 0 else "scroll sideways"


def _chosen(view: RunView, value: object) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(view.q(str(one)) for one in values)


_WORDS: dict[str, _Words] = {
    "fill": _Words(2, lambda v, i, c: f"fill {v._element(i, c)} with {v.q(str(_arguments(c)[1]))}"),
    "select_option": _Words(2, lambda v, i, c: f"choose {_chosen(v, _arguments(c)[1])} in {v._element(i, c)}"),
    "press": _Words(2, lambda v, i, c: f"press {v.q(str(_arguments(c)[1]))} in {v._element(i, c)}"),
    "drag_and_drop": _Words(2, lambda v, i, c: f"drag {v._element(i, c)} onto {v._element(i, c, 1)}"),
    "goto": _Words(1, lambda v, i, c: f"open the address {v.q(_path(str(_arguments(c)[0])))}"),
    "scroll": _Words(2, _scroll),
    "go_back": _Words(0, lambda v, i, c: "go back"),
    "go_forward": _Words(0, lambda v, i, c: "go forward"),
    "noop": _Words(0, lambda v, i, c: "wait"),
    "send_msg_to_user": _Words(1, lambda v, i, c: f"answer {v.q(str(_arguments(c)[0]))}"),
    "report_infeasible": _Words(1, lambda v, i, c: f"report that it cannot be done: {v.q(str(_arguments(c)[0]))}"),
}


def _path(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return unquote(parts.path + (f"?{parts.query}" if parts.query else "")) or url


def _page_name(tree: Tree, state: State) -> str:
    return tree.main_title() or clean(_path(state.url).split("?")[0]) or state.url


def _seen_lines(tree: Tree) -> dict[SeenLine, int]:
    found: dict[SeenLine, int] = {}
    for position, node in enumerate(tree.nodes):
        if node.role == "ListMarker" or (node.role in _CONTAINERS and _names_something(tree, position)):
            continue
        label = node.label or (tree.label(position) if node.role in {"textbox", "combobox"} else "")
        flags: tuple[str, ...] = ()
        if node.rest:
            flags = tuple(flag for flag in _STATE_FLAGS if node.flag(flag))
        if label or node.value or flags:
            found.setdefault(SeenLine(node.role, label, clean(node.value or ""), flags), position)
    return found


def _names_something(tree: Tree, position: int) -> bool:
    return any(tree.nodes[below].name for below in tree.subtree(position))
