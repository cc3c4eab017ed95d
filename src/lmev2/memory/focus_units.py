"""A tree folded into short lines that make sense alone: a table row, a field with its options, a list, some text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lmev2.memory.focus_query import words
from lmev2.tree import FIELD_ROLES, MESSAGE_ROLES, TABLE_ROLES, Tree, clean

_ITEM_LISTS = frozenset({"DescriptionList", "list", "menu", "menubar", "navigation", "row", "tablist", "toolbar"})
_TEXT_ROLES = frozenset(
    {"LabelText", "Legend", "StaticText", "caption", "definition", "emphasis", "paragraph", "strong", "term", "time"}
)
_WHOLE_ROLES = frozenset(
    {"button", "columnheader", "heading", "link", "menuitem", "option", "rowheader", "sectionheader", "tab"}
)
_CONTAINERS = frozenset(
    {"article", "LayoutTableCell", "cell", "form", "generic", "gridcell", "listitem", "region", "rowgroup", "table"}
)
_FRAMES = frozenset({"Iframe", "main"})
_LANDMARKS = frozenset({"banner", "contentinfo", "navigation", "menubar"})
_FLAGS = ("required", "checked", "selected", "expanded", "pressed", "disabled")
_MOST_CHARS = 420  # of a line; longer ones are cut at a word
NOTICE = "notice"  # the role of plain text that reads like a message of a form or application
_NOTICE = re.compile(
    r"\b(?:errors?|invalid|must|cannot|can't|could not|not allowed|not permitted|(?:is|are) required|at most|at least|"
    r"no longer|needs? an?|already exists?|successfully|was (?:saved|sent|added|changed|deleted|not)|has been \w+ed)\b",
    re.IGNORECASE,
)
HEADER_ROW = "header row"  # the role of a row with column headers
_SHORT_CHARS = 4
_ITEM_CHARS = 150
_FEW_OPTIONS = 12  # so many are always shown
_FIRST_OPTIONS = 4


@dataclass
class Unit:
    """One line of a folded tree.

    Attributes:
        text: the line as it is shown.
        role: role of the node that it came from; ``text`` for a run of text.
        parent: number of the unit that it stands inside, -1 at the top.
        heading: number of the last heading before it, -1 without one.
        header: for a row of a table, the number of the row with the column headers, else -1.
        level: how deep it stands among units.
        landmark: it belongs to a navigation, banner or footer.
        tokens: stemmed words of the line.
        length: how long the line counts when scores are compared: in words, a field's without its options.
    """

    text: str
    role: str
    parent: int
    heading: int
    header: int
    level: int
    landmark: bool
    tokens: list[str] = field(default_factory=list)
    length: int = 0

    @property
    def is_message(self) -> bool:
        """An alert, a status line or an assertive live region."""
        return self.role in MESSAGE_ROLES


def fold(tree: Tree, wanted: frozenset[str] | None = None) -> list[Unit]:
    """The units of a tree in order. Empty and repeated neighbours are left out.

    Args:
        tree: the tree.
        wanted: stemmed words; of a long list of options only the first ones, the chosen ones and those with one of the
            words are shown. None shows all options.
    """
    units: list[Unit] = []
    open_units: list[tuple[int, int]] = []  # end of the subtree, number of the unit
    landmark_end = heading = header = -1
    position = 0
    while position < len(tree):
        while open_units and open_units[-1][0] <= position:
            open_units.pop()
        node = tree.nodes[position]
        if node.role in _LANDMARKS:
            landmark_end = max(landmark_end, tree.ends[position])
        if node.role in TABLE_ROLES:
            header = -1
        text, role, after = _line(tree, position, wanted)
        parent = open_units[-1][1] if open_units else -1
        if text and not _says_nothing(units, role, text, parent):
            if role in FIELD_ROLES and units and units[-1].role in {"text", NOTICE} and f"'{units[-1].text}'" in text:
                units.pop()  # the label that the field's own name repeats
            own = len(units)
            tokens = words(text)
            units.append(
                Unit(
                    _cut(text, _MOST_CHARS),
                    role,
                    parent,
                    heading,
                    header if role == "row" else -1,
                    units[parent].level + 1 if parent >= 0 else 0,
                    position < landmark_end,
                    tokens,
                    len(words(text.partition("': ")[0])) if role in FIELD_ROLES else len(tokens),
                )
            )
            if role in {"heading", "sectionheader"}:
                heading = own
            elif role == HEADER_ROW:
                header = own
            if after == position + 1:
                open_units.append((tree.ends[position], own))
        position = after
    return units


def _line(tree: Tree, position: int, wanted: frozenset[str] | None) -> tuple[str, str, int]:
    """A node's line, its role, and the position after what the line covers. An empty line shows nothing."""
    node, end = tree.nodes[position], tree.ends[position]
    if _is_text(tree, position):
        return _text_run(tree, position)
    if node.role in FIELD_ROLES:
        options = _options(tree, position, wanted)
        inner = end if options or not _has_fields(tree, position) else position + 1
        return f"{_named(tree, position)}{options}", node.role, inner
    if node.role in _WHOLE_ROLES:
        return _named(tree, position), node.role, end
    if node.role in MESSAGE_ROLES or ("live='assertive'" in node.rest and not node.name):
        text = _joined(tree, position) if not _has_fields(tree, position) else ""
        return (f"alert: {text}" if text else ""), "alert", end if text else position + 1
    if node.role in _ITEM_LISTS and not _has_fields(tree, position):
        items = _items(tree, position)
        role = HEADER_ROW if node.role == "row" and _has_headers(tree, position) else node.role
        shown = [_cut(item, _ITEM_CHARS) for item in items]
        if any(items) and sum(map(len, shown)) <= _MOST_CHARS:
            name = f" '{node.label}'" if node.label and node.role != "row" else ""
            # What a cut item leaves out follows as lines of its own.
            return f"{node.role}{name}: {' | '.join(shown)}", role, end if shown == items else position + 1
    if node.role in {"LayoutTableCell", "cell", "gridcell", "listitem"} and not _has_fields(tree, position):
        text = _joined(tree, position)
        if len(text) <= _ITEM_CHARS:
            return text, NOTICE if _text_role(text) == NOTICE else node.role, end
    if (
        not node.label
        or node.role in _FRAMES
        or (node.role in _CONTAINERS and len(node.label) > 80 and end > position + 1)
    ):
        return "", node.role, position + 1
    if node.role == "image" and len(node.label) < 2:
        return "", node.role, position + 1
    return _named(tree, position), node.role, position + 1


def _named(tree: Tree, position: int) -> str:
    """Role, label, value and state of a node; empty when it has none of the last three."""
    node = tree.nodes[position]
    label = tree.label(position) if node.role in FIELD_ROLES else tree.text(position)
    value = f" value '{clean(node.value)}'" if node.value else ""
    flags = [flag for flag in _FLAGS if flag in node.rest and node.flag(flag)] if node.rest else []
    if node.role in FIELD_ROLES and "required" not in flags and tree.required(position):
        flags.append("required")
    if not (label or value or flags):
        return ""
    shown = f" ({', '.join(flags)})" if flags else ""
    return f"{node.role or 'text'} '{label}'{value}{shown}"


def _options(tree: Tree, position: int, wanted: frozenset[str] | None) -> str:
    """Options as `` : a | b (selected) | c``; empty when there are none."""
    shown, special = [], []
    for below in tree.subtree(position):
        node = tree.nodes[below]
        if node.role in {"option", "radio", "menuitemradio"}:
            chosen = node.flag("selected") or node.flag("checked")
            label = tree.text(below)
            shown.append(f"{label} (selected)" if chosen else label)
            special.append(chosen or (wanted is not None and not wanted.isdisjoint(words(label))))
    if wanted is not None and len(shown) > _FEW_OPTIONS:
        kept = [option for number, option in enumerate(shown) if number < _FIRST_OPTIONS or special[number]]
        shown = [*kept, f"… ({len(shown)} in all)"] if len(kept) < len(shown) else shown
    return ": " + " | ".join(shown) if shown else ""


def _items(tree: Tree, position: int) -> list[str]:
    """Texts of a list's items; a chain of single wrappers around the items is passed over."""
    children = list(tree.children(position))
    while len(children) == 1 and tree.nodes[children[0]].role in _ITEM_LISTS | {"group", "generic", "rowgroup"}:
        children = list(tree.children(children[0]))
    items = []
    for child in children:
        node = tree.nodes[child]
        text = tree.tab_text(child) if node.role == "tab" else _joined(tree, child)
        flags = [flag for flag in ("selected", "checked", "disabled") if flag in node.rest and node.flag(flag)]
        if text or tree.is_row(position):  # an empty cell keeps the columns in step
            items.append(text + (f" ({', '.join(flags)})" if flags else ""))
    return items if sum(map(bool, items)) > 1 or not children else []


def _joined(tree: Tree, position: int) -> str:
    """A node's name and the texts below it, without what is said already; it ends once it is too long to be shown."""
    parts: list[str] = []
    size = 0
    for each in range(position, tree.ends[position]):
        label = tree.nodes[each].label
        if label and tree.nodes[each].role != "ListMarker" and not any(label in part for part in parts):
            parts.append(label)
            size += len(label)
            if size > 2 * _MOST_CHARS:
                break
    return " ".join(parts)


def _is_text(tree: Tree, position: int) -> bool:
    """Plain text: a text node, or a caption with nothing but text below it."""
    if tree.nodes[position].role == "StaticText":
        return True
    return tree.nodes[position].role in _TEXT_ROLES and all(
        tree.nodes[below].role in _TEXT_ROLES for below in tree.subtree(position)
    )


def _text_role(text: str) -> str:
    return NOTICE if _NOTICE.search(text) else "text"


def _text_run(tree: Tree, position: int) -> tuple[str, str, int]:
    """A run of neighbouring plain texts as one line."""
    parent, end = tree.parents[position], tree.ends[position]
    parts = [tree.text(position)]
    while end < len(tree) and tree.parents[end] == parent and _is_text(tree, end):
        more = tree.text(end)
        if sum(map(len, parts)) + len(more) > 200:
            break
        if more and more != parts[-1]:
            parts.append(more)
        end = tree.ends[end]
    text = ""
    for part in filter(None, parts):
        text += (_between(text, part) if text else "") + part
    return text, _text_role(text), end


def _between(before: str, after: str) -> str:
    """What joins neighbouring texts: a space within a sentence or after a label's colon, else a bar."""
    within = before[-1] in ",:(/" or not (after[0].isupper() or after[0].isdecimal() or after[0] in "$€£")
    return " " if within else " | "


def _has_fields(tree: Tree, position: int) -> bool:
    return any(
        tree.nodes[below].role in FIELD_ROLES and tree.nodes[below].role != "checkbox"
        for below in tree.subtree(position)
    )


def _has_headers(tree: Tree, position: int) -> bool:
    return any(tree.nodes[child].role == "columnheader" for child in tree.children(position))


def _says_nothing(units: list[Unit], role: str, text: str, parent: int) -> bool:
    """Whether a line has no word, or the last unit, the unit around it or the page's title says all of it."""
    if not units:
        return False
    label = text.split("'", 1)[-1].removesuffix("'") if role not in {"text", NOTICE} else text
    if text == units[-1].text or not any(map(str.isalnum, text)):
        return True
    if role == "RootWebArea":
        return any(unit.text == text for unit in units if unit.role == role)
    if len(label) < _SHORT_CHARS:  # a number or a sign may stand in any line by chance
        return False
    if role in {"image", "text", NOTICE} and label in units[-1].text:
        return True
    return parent >= 0 and units[parent].role not in {"RootWebArea", "heading"} and label in units[parent].text


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rsplit(" ", 1)[0] + "…"
