"""Accessibility trees as text: the parser, and the questions that notes and renderers ask of a tree.

A tree is the text that BrowserGym makes of a page: one node a line, indented by tabs, an optional element id in
brackets, a role, the accessible name as a Python string literal, then an optional value and properties::

    RootWebArea 'New ticket', focused
    \t[a50] LabelText ''
    \t\tStaticText 'Impact'
    \t[a51] combobox 'Impact' value='Low', clickable, visible, required, hasPopup='menu', expanded=False
    \t\t[a52] option 'Low', selected=True
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

CONTROL_ROLES = frozenset(
    {
        "button", "checkbox", "combobox", "listbox", "radio", "radiogroup", "searchbox", "slider", "spinbutton",
        "switch", "textbox",
    }
)  # fmt: skip
FIELD_ROLES = CONTROL_ROLES - {"button", "radio"}
MESSAGE_ROLES = frozenset({"alert", "alertdialog", "log", "status"})
TABLE_ROLES = frozenset({"grid", "table", "treegrid"})
_CAPTION_ROLES = frozenset({"LabelText", "Legend", "StaticText", "caption", "emphasis", "heading", "strong", "term"})
_OPTION_ROLES = frozenset({"option", "menuitemradio", "radio"})
_ROW_ROLES = frozenset({"row", "LayoutTableRow"})
_CELL_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader", "LayoutTableCell"})

_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_LINE = re.compile(
    rf"(?P<indent>\t*)(?:\[(?P<bid>[^\]\s]+)\] )?(?P<role>[A-Za-z]\w*)(?: (?P<name>{_LITERAL}))?"
    rf"(?:,? value=(?P<value>{_LITERAL}|[^\s,]+))?(?P<rest>(?:, .*)?)$"
)
_PROPERTY = re.compile(rf", (?P<key>[A-Za-z_]+)(?:=(?P<value>{_LITERAL}|\([^()]*\)|[^,]*))?")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
# Icon fonts put code points of the private-use areas into names; to a reader they are noise.
_NOISE = re.compile(r"[\ue000-\uf8ff\U000f0000-\U0010fffd\u200b-\u200f\ufeff]")
_REQUIRED_PREFIX = re.compile(r"^Mandatory - (?:must be populated before Submit|preloaded with saved data)\s*")
_REQUIRED_SUFFIX = re.compile(r"(?<!\s)\s*(?:\*|\(required\)|This field is required\.?)\s*$", re.IGNORECASE)

_KEPT = 1 << 15  # lines and names whose reading is kept: pages that follow each other share most of theirs


class Node(NamedTuple):
    """One line of a tree.

    Attributes:
        line: 0-based number of the line in the text.
        depth: number of leading tabs.
        bid: the element id in brackets, which actions name; None without one.
        role: accessibility role; empty for a line that is not in the tree's format.
        name: accessible name, decoded; for a line that is not in the format, the whole line.
        value: current value of a field, decoded; None without one.
        rest: the properties as they stand in the line, beginning with a comma.
    """

    line: int
    depth: int
    bid: str | None
    role: str
    name: str
    value: str | None
    rest: str

    @property
    def properties(self) -> dict[str, str]:
        """Properties by name; a flag such as ``required`` has the value ``True``."""
        found = {}
        for match in _PROPERTY.finditer(self.rest):
            value = match["value"]
            found[match["key"]] = "True" if value is None else decode_literal(value)
        return found

    def flag(self, name: str) -> bool:
        """Whether a property is present and not false, such as ``required``, ``checked='true'``, ``selected=True``."""
        if name not in self.rest:
            return False
        return self.properties.get(name, "False").lower() not in {"false", "0", ""}

    @property
    def label(self) -> str:
        """The name for a reader: without icon characters, required marks and repeated white space."""
        return _label(self.name)

    @property
    def required(self) -> bool:
        """The field must be filled: by its property, or by a mark in its name."""
        name = clean(self.name)
        return self.flag("required") or bool(_REQUIRED_PREFIX.search(name) or _REQUIRED_SUFFIX.search(name))


def clean(text: str) -> str:
    """Text without icon-font and zero-width characters and with single spaces."""
    return " ".join((text if text.isascii() else _NOISE.sub(" ", text)).split())


@lru_cache(maxsize=_KEPT)
def _label(name: str) -> str:
    return _REQUIRED_SUFFIX.sub("", _REQUIRED_PREFIX.sub("", clean(name)))


def decode_literal(text: str) -> str:
    """A Python string literal's content; text that is not a literal comes back unchanged. Never raises."""
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        return text
    body = text[1:-1]
    return _ESCAPE.sub(_unescape, body) if "\\" in body else body


def _unescape(match: re.Match[str]) -> str:
    short, four, eight, simple = match.groups()
    if simple is not None:
        return _SIMPLE_ESCAPES.get(simple, simple)
    code = int(short or four or eight, 16)
    return chr(code) if code <= 0x10FFFF else match[0]


@lru_cache(maxsize=_KEPT)
def _parse_line(line: str) -> tuple[int, str | None, str, str, str | None, str]:
    """A node but for the number of its line."""
    match = _LINE.match(line)
    if match is None:
        stripped = line.lstrip("\t")
        return len(line) - len(stripped), None, "", stripped.strip(), None, ""
    indent, bid, role, name, value, rest = match.groups()
    decoded = None if value is None else decode_literal(value)
    return len(indent), bid, role, decode_literal(name) if name else "", decoded, rest


class Tree:
    """A parsed accessibility tree. Nodes are named by their position, which is also their order in the text.

    Any text is accepted: lines that are not in the format become nodes without a role. Blank lines are left out.

    Attributes:
        nodes: the nodes in order.
        parents: position of each node's parent, -1 at the top.
        ends: position one past each node's subtree.
    """

    def __init__(self, text: str) -> None:
        # Only "\n" ends a line: names may hold other separators unescaped.
        self.nodes = [Node(number, *_parse_line(line)) for number, line in enumerate(text.split("\n")) if line.strip()]
        self.parents: list[int] = []
        self.ends: list[int] = [len(self.nodes)] * len(self.nodes)
        open_nodes: list[int] = []
        for position, node in enumerate(self.nodes):
            while open_nodes and self.nodes[open_nodes[-1]].depth >= node.depth:
                self.ends[open_nodes.pop()] = position
            self.parents.append(open_nodes[-1] if open_nodes else -1)
            open_nodes.append(position)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def by_bid(self) -> dict[str, int]:
        """Position of the first node of each element id."""
        found: dict[str, int] = {}
        for position, node in enumerate(self.nodes):
            if node.bid is not None:
                found.setdefault(node.bid, position)
        return found

    def ancestors(self, position: int) -> list[int]:
        """Positions of the node's ancestors, nearest first."""
        found = []
        position = self.parents[position]
        while position >= 0:
            found.append(position)
            position = self.parents[position]
        return found

    def subtree(self, position: int) -> range:
        """Positions of the node's descendants in order, without the node."""
        return range(position + 1, self.ends[position])

    def children(self, position: int) -> Iterator[int]:
        """Positions of the node's children in order."""
        child = position + 1
        while child < self.ends[position]:
            yield child
            child = self.ends[child]

    def with_role(self, *roles: str) -> list[int]:
        """Positions of all nodes with one of the roles, in order."""
        return [position for position, node in enumerate(self.nodes) if node.role in roles]

    def text(self, position: int) -> str:
        """A node's text for a reader: its name, or the texts below it joined with spaces."""
        own = self.nodes[position].label
        if own:
            return own
        parts: list[str] = []
        for below in self.subtree(position):
            node = self.nodes[below]
            if node.role != "ListMarker" and node.label and not any(node.label in part for part in parts[-3:]):
                parts.append(node.label)
        return " ".join(parts)

    def tab_text(self, position: int) -> str:
        """A tab's text. Where its name carries hidden notices, it is the text inside that the name ends with."""
        text = self.text(position)
        inner = (self.nodes[below].label for below in self.subtree(position))
        return min((part for part in inner if part and text.endswith(part)), key=len, default=text)

    def title(self) -> str:
        """The page's title: the name of the first named ``RootWebArea``; empty without one."""
        titles = self.titles()
        return titles[0] if titles else ""

    def titles(self) -> list[str]:
        """Titles of the page and of the documents in its frames, without repeats."""
        return _unique(self.nodes[position].label for position in self.with_role("RootWebArea"))

    def main_title(self) -> str:
        """Title of the document that holds most nodes: in an application that shows its pages in a frame, the frame's.
        Empty without a titled document."""
        roots: list[int] = []  # of each node, the node that begins its document
        sizes: dict[int, int] = {}
        for position, parent in enumerate(self.parents):
            starts = parent < 0 or self.nodes[position].role == "RootWebArea"
            roots.append(position if starts else roots[parent])
            sizes[roots[-1]] = sizes.get(roots[-1], 0) + 1
        titled = [root for root in sizes if self.nodes[root].role == "RootWebArea" and self.nodes[root].label]
        return self.nodes[max(titled, key=lambda root: (sizes[root], -root))].label if titled else ""

    def label(self, position: int) -> str:
        """The label of a control: its name, else the text just before it among its siblings or its ancestors'
        siblings (at most three levels up) where that is a label or caption, else empty."""
        own = self.nodes[position].label
        if own:
            return own
        current = position
        for _ in range(3):
            parent = self.parents[current]
            if parent < 0:
                break
            before = [child for child in self.children(parent) if child < current]
            for sibling in reversed(before):
                text = self.text(sibling)
                if self.nodes[sibling].role in _CAPTION_ROLES and text:
                    return _REQUIRED_SUFFIX.sub("", text)
                if text or self.nodes[sibling].role in CONTROL_ROLES:
                    return ""
            current = parent
        return ""

    def required(self, position: int) -> bool:
        """Whether a field must be filled: by its own mark, or by a mark on the label text just before it."""
        if self.nodes[position].required:
            return True
        parent = self.parents[position]
        before = position - 1
        if before <= parent or self.nodes[before].role not in {"LabelText", "StaticText"}:
            return False
        return clean(self.nodes[before].name).endswith("*")

    def options(self, position: int) -> list[str]:
        """Labels of the options of a combobox, listbox, radio group or menu, in order, repeats included."""
        roles = _OPTION_ROLES if self.nodes[position].role != "menu" else {"menuitem", "menuitemradio"}
        return [
            text for below in self.subtree(position) if self.nodes[below].role in roles and (text := self.text(below))
        ]

    def selected(self, position: int) -> str:
        """The chosen option's label, else the field's value, else empty."""
        node = self.nodes[position]
        if node.value is not None:
            return clean(node.value)
        for below in self.subtree(position):
            inner = self.nodes[below]
            if inner.role in _OPTION_ROLES and (inner.flag("selected") or inner.flag("checked")):
                return self.text(below)
        return ""

    def messages(self) -> list[str]:
        """Texts of alerts, status lines and assertive live regions, without their buttons (such as one that closes
        them), in order, without repeats and empty ones. Named regions are parts of a page, not messages."""
        found = []
        for position, node in enumerate(self.nodes):
            live = "live='assertive'" in node.rest and node.role in {"generic", "region", "group"} and not node.name
            if live or node.role in MESSAGE_ROLES:
                found.append(self._message_text(position))
        return _unique(found)

    def _message_text(self, position: int) -> str:
        parts: list[str] = []
        skip_until = 0
        for below in self.subtree(position):
            node = self.nodes[below]
            if below < skip_until or node.role == "ListMarker":
                continue
            if node.role == "button":
                skip_until = self.ends[below]
            elif node.label and not any(node.label in part for part in parts[-2:]):
                parts.append(node.label)
        return " ".join(parts) or self.nodes[position].label

    def headings(self) -> list[str]:
        """Texts of the headings, in order, without repeats."""
        return _unique(self.text(position) for position in self.with_role("heading", "sectionheader"))

    def column_headers(self) -> list[list[str]]:
        """Column headers of each table that has any, in order: one list a table."""
        tables: dict[int, list[str]] = {}
        for position in self.with_role("columnheader"):
            around = (a for a in self.ancestors(position) if self.nodes[a].role in TABLE_ROLES)
            text = self.text(position)
            if text:
                tables.setdefault(next(around, -1), []).append(text)
        return list(tables.values())

    def is_row(self, position: int) -> bool:
        """Whether the node is a table row."""
        return self.nodes[position].role in _ROW_ROLES

    def cells(self, position: int) -> list[int]:
        """Positions of a row's cells."""
        return [child for child in self.children(position) if self.nodes[child].role in _CELL_ROLES]


def _unique(texts: Iterator[str] | list[str]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))
