"""BrowserGym actions: what they call, which elements they name, and their annotation with the elements' tree lines."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Primitives whose quoted argument is a text, an address or a key, never an element id: without this, the message "65"
# would be annotated with the element [65].
_WITHOUT_ELEMENT = frozenset(
    {
        "goto",
        "go_back",
        "go_forward",
        "keyboard_down",
        "keyboard_insert_text",
        "keyboard_press",
        "keyboard_type",
        "keyboard_up",
        "mouse_click",
        "mouse_dblclick",
        "mouse_down",
        "mouse_drag_and_drop",
        "mouse_move",
        "mouse_up",
        "mouse_upload_file",
        "new_tab",
        "noop",
        "report_infeasible",
        "scroll",
        "send_msg_to_user",
        "tab_close",
        "tab_focus",
    }
)
_ELEMENT_COUNT = {"drag_and_drop": 2}
_ELEMENT_KEYWORDS = ("bid", "from_bid", "to_bid")

# For text that is not valid Python, such as an unescaped quote in a typed text: a name, a bracket, quoted arguments.
_LOOSE_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_LOOSE_QUOTED = re.compile(r"\s*(?:'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\")\s*(?=[,)]|\Z)")

ARROW = " -> "
SEPARATOR = " | "


@dataclass(frozen=True)
class ActionCall:
    """One call of an action.

    Attributes:
        name: the primitive, such as ``click``.
        args: positional arguments; an argument that is no literal stands as its source text.
        keywords: keyword arguments, likewise.
        elements: ids of the elements that the call names: the first argument if it is quoted, the first two of
            ``drag_and_drop``, none for primitives that take text, an address or coordinates.
    """

    name: str
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict, hash=False)
    elements: tuple[str, ...] = ()


def parse_action(action: str | None) -> tuple[ActionCall, ...]:
    """Calls of an action in order; empty for null, blank and unreadable text. Never raises."""
    if not action or not action.strip():
        return ()
    calls = _parse_python(action.strip())
    return _parse_loosely(action) if calls is None else calls


def element_ids(action: str | None) -> tuple[str, ...]:
    """Ids of the elements that an action names, in order, without repeats. Never raises."""
    return tuple(dict.fromkeys(name for call in parse_action(action) for name in call.elements))


def _parse_python(action: str) -> tuple[ActionCall, ...] | None:
    """Calls of an action that is valid Python; None when it is not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes such as "\d" in a typed text
            module = ast.parse(action)
        return tuple(
            _from_node(statement.value)
            for statement in module.body
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _from_node(node: ast.Call) -> ActionCall:
    name = ast.unparse(node.func)
    args = tuple(_literal(argument) for argument in node.args)
    keywords = {keyword.arg: _literal(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    named = (keyword.value for keyword in node.keywords if keyword.arg in _ELEMENT_KEYWORDS)
    return ActionCall(name, args, keywords, _elements(name, [_quoted(argument) for argument in (*node.args, *named)]))


def _quoted(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ast.unparse(node)


def _elements(name: str, quoted: Sequence[str | None]) -> tuple[str, ...]:
    """Element ids among a call's leading arguments; None stands for an argument that is not quoted."""
    if name in _WITHOUT_ELEMENT:
        return ()
    return tuple(argument for argument in quoted[: _ELEMENT_COUNT.get(name, 1)] if argument)


def _parse_loosely(action: str) -> tuple[ActionCall, ...]:
    start = _LOOSE_CALL.match(action)
    if start is None:
        return ()
    quoted: list[str] = []
    position = start.end()
    while (match := _LOOSE_QUOTED.match(action, position)) is not None:
        quoted.append(match[1] if match[1] is not None else match[2])
        position = match.end() + 1
    return (ActionCall(start[1], tuple(quoted), {}, _elements(start[1], quoted)),)


def element_line(tree: str, element: str) -> str | None:
    """The first line of a tree that begins with ``[element]``, stripped; None without one.

    Only ``\\n`` ends a line. The search is a plain text search that looks at each line once, so trees of some hundred
    kilobytes need no parsing.
    """
    needle = f"[{element}]"
    position = tree.find(needle)
    while position >= 0:
        end = tree.find("\n", position)
        if not tree[tree.rfind("\n", 0, position) + 1 : position].strip():
            return tree[position : end if end >= 0 else len(tree)].strip()
        if end < 0:
            return None
        position = tree.find(needle, end)
    return None


def annotate_actions(actions: Sequence[str | None], trees: Sequence[str]) -> list[str | None]:
    """Annotate a trajectory's actions: ``click('a51') -> [a51] button 'Submit', clickable, visible``.

    Args:
        actions: per state k the action that led from state k-1 to k; null where there is none.
        trees: per state its accessibility tree.

    Returns:
        Per state the action followed by the lines of the elements that it names. An element is looked up in the tree of
        the state before the action, then in earlier ones, latest first. An action none of whose elements is found
        stays as it is, and so does null.

    Raises:
        ValueError: the two lists differ in length.
    """
    if len(actions) != len(trees):
        raise ValueError(f"{len(actions)} actions do not fit {len(trees)} trees; there is one of each per state")
    return [_annotate(action, trees, state) for state, action in enumerate(actions)]


def _annotate(action: str | None, trees: Sequence[str], state: int) -> str | None:
    if action is None:
        return None
    found = (_latest_line(trees, state - 1, element) for element in element_ids(action))
    lines = [line for line in found if line is not None]
    return action + ARROW + SEPARATOR.join(lines) if lines else action


def _latest_line(trees: Sequence[str], last: int, element: str) -> str | None:
    lines = (element_line(trees[state], element) for state in range(last, -1, -1))
    return next((line for line in lines if line is not None), None)
