"""What a page of a run offers, as bullets of its hint note: fields with options, columns, buttons, tabs, links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lmev2.pools.note_view import RunView, quote
from lmev2.tree import FIELD_ROLES, TABLE_ROLES, Tree

_LANDMARKS = frozenset({"navigation", "banner", "contentinfo", "menubar"})
_BULLET_CHARS = 560
_FIELD_BULLETS = 3  # of one page
_LONGEST_LABEL = 60  # longer links are content, such as titles of products or posts

# Yields what a state's page offers of one kind: a key that its other states share, and the item in words.
_Kind = Callable[[RunView, int], Iterator[tuple[str, str]]]


def page_bullets(view: RunView, pages: Iterable[str]) -> list[str]:
    """Bullets about pages, from all states that show them: first what distinguishes the pages (fields with options,
    columns, tabs, details), then buttons, headings, menu entries and links. What the whole site shows is left out."""
    pages = list(pages)
    return [
        bullet
        for group in (_TELLING, _COMMON)
        for page in pages
        for phrase, kind in group
        for bullet in _page_bullet(view, page, phrase, kind)
    ]


def _page_bullet(view: RunView, page: str, phrase: str, kind: _Kind) -> list[str]:
    items: dict[str, str] = {}  # by label: a page's later states repeat its fields
    for state in view.page_states[page]:
        for label, item in kind(view, state):
            items.setdefault(label, item)
    most = _FIELD_BULLETS if kind is _fields else 1
    texts = _chunks(list(items.values()), most)
    return [f"- Page {view.q(page)} {phrase} {text}." for text in texts]


def site_bullet(view: RunView) -> list[str]:
    """One bullet with the links, buttons and menu entries that the whole site shows; empty when there are none."""
    labels = dict.fromkeys(
        node.label
        for tree in view.trees
        for node in tree.nodes
        if node.role in {"link", "button", "menuitem"} and node.label and (node.role, node.label) in view.site_wide
    )
    text = joined([quote(label, 60) for label in labels], _BULLET_CHARS)
    return [f"- Most pages of the site show {text}."] if text else []


def joined(items: Sequence[str], limit: int) -> str:
    """Items with commas between: as many as fit into ``limit`` characters, at least the first; ``…`` for the rest."""
    text = ""
    for number, item in enumerate(items):
        longer = f"{text}, {item}" if text else item
        if len(longer) > limit and number > 0:
            return text + ", …"
        text = longer
    return text


def _chunks(items: list[str], most: int) -> list[str]:
    """Items as at most so many texts of bullet length, none of them empty."""
    texts: list[str] = []
    while items and len(texts) < most:
        size, count = 0, 0
        while count < len(items) and (count == 0 or size + len(items[count]) + 2 <= _BULLET_CHARS):
            size += len(items[count]) + 2
            count += 1
        texts.append(", ".join(items[:count]))
        items = items[count:]
    if items and texts:
        texts[-1] += ", …"
    return texts


def _fields(view: RunView, state: int) -> Iterator[tuple[str, str]]:
    tree = view.trees[state]
    for position, node in enumerate(tree.nodes):
        if node.role not in FIELD_ROLES:
            continue
        label = tree.label(position)
        if label and (node.role, node.label) not in view.site_wide and not _in_table_body(tree, position):
            yield label, _field(view, tree, position, label)
    yield from _loose_radios(view, tree)


def _field(view: RunView, tree: Tree, position: int, label: str) -> str:
    node = tree.nodes[position]
    notes = [node.role] if node.role not in {"textbox", "searchbox"} else []
    if tree.required(position):
        notes.append("required")
    if node.flag("disabled"):
        notes.append("disabled")
    options = list(dict.fromkeys(tree.options(position)))
    if options:
        notes.append("options " + joined([quote(option, 60) for option in _short_range(options)], 300))
    selected = tree.selected(position)
    if selected:
        notes.append(f"value {quote(selected, 60)}")
    return view.q(label) + (f" ({', '.join(notes)})" if notes else "")


def _loose_radios(view: RunView, tree: Tree) -> Iterator[tuple[str, str]]:
    """Radio buttons outside a radio group, by the nearest node that holds at least two of them."""
    groups: dict[int, list[int]] = {}
    for position in tree.with_role("radio"):
        ancestors = tree.ancestors(position)
        if any(tree.nodes[a].role == "radiogroup" for a in ancestors):
            continue
        for ancestor in ancestors:
            radios = [below for below in tree.subtree(ancestor) if tree.nodes[below].role == "radio"]
            if len(radios) > 1:
                groups[ancestor] = radios
                break
    for ancestor, radios in groups.items():
        labels = [label for radio in radios if (label := tree.label(radio))]
        name = tree.nodes[ancestor].label or tree.label(radios[0])
        options = ", ".join(quote(label, 60) for label in labels)
        if options:
            yield name, f"radio buttons {options}" if name in labels else f"{view.q(name)} (radio buttons {options})"


def _short_range(options: list[str]) -> list[str]:
    """A run of whole numbers, as of a quantity, by its ends."""
    if len(options) > 6 and all(option.isdecimal() for option in options):
        return [options[0], options[1], options[-1]]
    return options


def _in_table_body(tree: Tree, position: int) -> bool:
    """Whether the nearest row around a node belongs to a table of data, which has column headers."""
    row = next((a for a in tree.ancestors(position) if tree.is_row(a)), None)
    if row is None:
        return False
    table = next((a for a in tree.ancestors(row) if tree.nodes[a].role in TABLE_ROLES), row)
    return any(tree.nodes[below].role == "columnheader" for below in tree.subtree(table))


def _columns(view: RunView, state: int) -> Iterator[tuple[str, str]]:
    for headers in view.trees[state].column_headers():
        if len(headers) > 1:
            yield "|".join(headers), "[" + ", ".join(quote(header, 50) for header in headers[:24]) + "]"


def _headings(view: RunView, state: int) -> Iterator[tuple[str, str]]:
    tree = view.trees[state]
    for position in tree.with_role("heading", "sectionheader"):
        text = tree.text(position)
        if text and (tree.nodes[position].role, tree.nodes[position].label) not in view.site_wide:
            yield text, quote(text, 80)


def _details(view: RunView, state: int) -> Iterator[tuple[str, str]]:
    """Terms with their definitions, and short two-cell rows whose first cell is a row header."""
    tree = view.trees[state]
    for position in tree.with_role("term", "rowheader"):
        parent = tree.parents[position]
        following = [child for child in tree.children(parent) if child > position] if parent >= 0 else []
        text = tree.text(position)
        if not text:
            continue
        value = tree.text(following[0]) if following else ""
        yield text, f"{quote(text, 60)} {quote(value, 80)}" if value else quote(text, 60)


def _of_role(role: str) -> _Kind:
    def kind(view: RunView, state: int) -> Iterator[tuple[str, str]]:
        tree = view.trees[state]
        for position in tree.with_role(role):
            node = tree.nodes[position]
            text = tree.tab_text(position) if role == "tab" else tree.text(position)
            if not 2 <= len(text) <= _LONGEST_LABEL or (role, node.label) in view.site_wide:
                continue
            if _in_table_body(tree, position) or (role == "link" and _belongs_elsewhere(tree, position)):
                continue
            yield text, quote(text, 60) + (" (disabled)" if node.flag("disabled") else "")

    return kind


def _belongs_elsewhere(tree: Tree, position: int) -> bool:
    """Whether a link is a tab's, or lies directly in a navigation bar."""
    near = [tree.nodes[ancestor].role for ancestor in tree.ancestors(position)[:2]]
    return near[:1] == ["tab"] or any(role in _LANDMARKS for role in near)


_TELLING: tuple[tuple[str, _Kind], ...] = (
    ("has the fields", _fields),
    ("has the column headers", _columns),
    ("has the tabs", _of_role("tab")),
    ("shows", _details),
)
_COMMON: tuple[tuple[str, _Kind], ...] = (
    ("has the buttons", _of_role("button")),
    ("has the headings", _headings),
    ("has the menu entries", _of_role("menuitem")),
    ("has the links", _of_role("link")),
)
