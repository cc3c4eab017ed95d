"""Made-up web pages as accessibility trees: words, sites, pages, and what a step on a page changes.

Everything is drawn from seeded generators, so that equal seeds give equal trees. Words are syllables put together at
random and follow Zipf's law; a site's pages share their header, their menus and, between visits, most of their lines.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from functools import lru_cache

VOCABULARY = 8000
_HEADS = ("b", "br", "c", "cl", "d", "dr", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "v")
_CORES = ("a", "e", "i", "o", "u", "ai", "ea", "ou", "é")
_TAILS = ("", "", "n", "r", "l", "st", "m", "t", "ck", "nd")
_ICON = "\ue1f4"
_TRAITS = (
    "clickable",
    "visible",
    "clickable, visible",
    "visible, hasPopup='menu', expanded=False",
    "visible, required",
)
_ROOMY = 2.5  # a header is at most this part of a page: 1 / _ROOMY
_LARGEST = 8.0  # times the mean size of a page
_LINE = 75  # characters of a usual line


class Words:
    """Words with the frequencies of Zipf's law, short ones first.

    Args:
        seed: equal seeds give equal words.
        size: number of words.
    """

    def __init__(self, seed: str, size: int = VOCABULARY):
        rng = random.Random(seed)
        found: dict[str, None] = {}
        while len(found) < size:
            found[make_word(rng, rng.choices((1, 2, 3, 4), (2, 5, 4, 1))[0])] = None
        self.words = sorted(found, key=lambda word: len(word) + rng.uniform(0, 4))  # frequent words are short
        self._sums = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(size)))

    def draw(self, rng: random.Random, count: int) -> str:
        """So many words, joined by spaces."""
        return " ".join(rng.choices(self.words, cum_weights=self._sums, k=count))

    def title(self, rng: random.Random, count: int) -> str:
        """The same with a capital letter at the start."""
        return self.draw(rng, count).capitalize()


def make_word(rng: random.Random, syllables: int) -> str:
    """A pronounceable word of so many syllables."""
    return "".join(rng.choice(_HEADS) + rng.choice(_CORES) + rng.choice(_TAILS) for _ in range(syllables))


@dataclass
class Page:
    """A page's tree as lines, and the elements on it that a step can use.

    Attributes:
        url: its address.
        title: of its root.
        lines: of the tree, without line ends.
        links: positions of links and buttons.
        fields: positions of text fields.
        choices: positions of closed comboboxes.
        rows: positions at which a line can be added, with its indent.
    """

    url: str
    title: str
    lines: list[str]
    links: list[int] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)


def element(line: str) -> str:
    """The id of the element on a line.

    Raises:
        ValueError: the line has none.
    """
    start = line.index("[")
    return line[start + 1 : line.index("]", start)]


class Site:
    """A web site: a host, menus, and pages by number, which are made when they are asked for.

    Args:
        name: of the environment.
        seed: equal seeds give equal pages.
        pages: how many there are.
        tree_chars: mean size of their trees, in characters.
    """

    def __init__(self, name: str, seed: str, pages: int, tree_chars: int):
        self.name = name
        self.pages = pages
        self.host = f"http://{name}.example:8080"
        self._seed = f"{seed}/{name}"
        self._tree_chars = tree_chars
        self.words = Words(f"{self._seed}/words")
        rng = random.Random(f"{self._seed}/menu")
        self.menu = [self.words.title(rng, rng.randint(1, 3)) for _ in range(24)]
        self._ranks = list(itertools.accumulate(1 / (rank + 8.0) for rank in range(pages)))
        self.page = lru_cache(maxsize=256)(self._make)

    def draw_page(self, rng: random.Random) -> int:
        """Number of a page; low numbers are visited more often."""
        return rng.choices(range(self.pages), cum_weights=self._ranks)[0]

    def _make(self, number: int) -> Page:
        rng = random.Random(f"{self._seed}/page/{number}")
        size = int(self._tree_chars * min(rng.lognormvariate(-0.18, 0.6), _LARGEST))
        title = self.words.title(rng, rng.randint(2, 4))
        return _PageMaker(self, rng, title, f"{self.host}/{title.replace(' ', '-')}/{number}").make(size)


class _PageMaker:
    """Makes one page from top to bottom."""

    def __init__(self, site: Site, rng: random.Random, title: str, url: str):
        self._site = site
        self._words = site.words
        self._rng = rng
        self._next = rng.randint(20, 60)
        self._prefix = rng.choice(("", "", "a"))
        self._size = 0
        self._page = Page(url, title, [])

    def make(self, size: int) -> Page:
        self._add(0, f"RootWebArea {self._page.title + ' | ' + self._site.name!r}, focused, url={self._page.url!r}")
        self._header(int(size / _ROOMY))
        self._element(1, "main", "")
        self._element(2, "heading", self._page.title)
        self._page.rows.append((len(self._page.lines), 2))
        parts = (self._table, self._form, self._article, self._catalogue)
        while self._size < size:
            self._rng.choices(parts, (4, 2, 3, 3))[0](size - self._size)
        return self._page

    def _add(self, depth: int, text: str) -> int:
        line = "\t" * depth + text
        self._page.lines.append(line)
        self._size += len(line) + 1
        return len(self._page.lines) - 1

    def _element(self, depth: int, role: str, name: str, rest: str = "visible") -> int:
        self._next += self._rng.choice((1, 1, 1, 2, 3))
        return self._add(depth, f"[{self._prefix}{self._next}] {role} {name!r}, {rest}")

    def _text(self, depth: int, text: str) -> None:
        self._add(depth, f"StaticText {text!r}")

    def _link(self, depth: int, name: str) -> None:
        address = f"{self._site.host}/{name.replace(' ', '-').lower()}?view={self._rng.randrange(16**12):012x}"
        self._page.links.append(self._element(depth, "link", name, f"clickable, visible, url={address!r}"))

    def _button(self, depth: int, name: str) -> None:
        self._page.links.append(self._element(depth, "button", name, "clickable, visible"))

    def _header(self, most: int) -> None:
        self._element(1, "banner", "")
        self._link(2, "Skip to main content")
        self._page.fields.append(self._element(2, "searchbox", "Search", "clickable, visible"))
        self._element(1, "navigation", "Main menu")
        self._element(2, "list", "")
        for name in self._site.menu:
            if self._size > most:
                break
            self._element(3, "listitem", "")
            self._link(4, name)

    def _table(self, room: int) -> None:
        columns = [self._words.title(self._rng, self._rng.randint(1, 2)) for _ in range(self._rng.randint(3, 8))]
        self._element(2, "table", self._words.title(self._rng, 2))
        self._element(3, "rowgroup", "")
        self._element(4, "row", "")
        for column in columns:
            self._element(5, "columnheader", column)
        self._element(3, "rowgroup", "")
        rows = min(self._rng.randint(5, 40), 1 + room // (_LINE * len(columns) * 2))
        for _ in range(rows):
            self._page.rows.append((len(self._page.lines), 4))
            self._element(4, "row", "")
            for number in range(len(columns)):
                self._cell(number)

    def _cell(self, number: int) -> None:
        kind = self._rng.random()
        if number == 0:
            self._element(5, "gridcell", "")
            self._link(6, f"{self._words.title(self._rng, 1)} {self._rng.randint(1000, 99999)}")
        elif kind < 0.3:
            self._element(5, "gridcell", f"{self._rng.randint(1, 5000)}.{self._rng.randint(0, 99):02d}")
        elif kind < 0.5:
            self._element(5, "gridcell", f"20{self._rng.randint(10, 25)}-{self._rng.randint(1, 12):02d}-11 08:30:00")
        else:
            text = self._words.draw(self._rng, self._rng.randint(1, 6))
            self._element(5, "gridcell", text)
            self._text(6, text)

    def _form(self, room: int) -> None:
        self._element(2, "form", "")
        for _ in range(min(self._rng.randint(4, 25), 1 + room // (_LINE * 5))):
            label = self._words.title(self._rng, self._rng.randint(1, 3))
            self._element(3, "LabelText", "", "clickable, visible")
            self._text(4, label)
            if self._rng.random() < 0.6:
                self._page.fields.append(self._element(3, "textbox", label, self._rng.choice(_TRAITS)))
            else:
                rest = "clickable, visible, hasPopup='menu', expanded=False"
                self._page.choices.append(self._element(3, "combobox", label, rest))
                for number in range(self._rng.randint(2, 8)):
                    name = self._words.title(self._rng, self._rng.randint(1, 3))
                    self._element(4, "option", name, f"selected={number == 0}")
        self._button(3, self._words.title(self._rng, 1))
        self._button(3, "Cancel")

    def _article(self, room: int) -> None:
        self._element(2, "article", "")
        self._element(3, "heading", self._words.title(self._rng, self._rng.randint(3, 8)))
        for _ in range(min(self._rng.randint(2, 20), 1 + room // 400)):
            self._page.rows.append((len(self._page.lines), 3))
            self._element(3, "paragraph", "")
            self._text(4, self._words.title(self._rng, self._rng.randint(15, 90)) + ".")
            if self._rng.random() < 0.3:
                self._link(4, self._words.title(self._rng, self._rng.randint(1, 5)))

    def _catalogue(self, room: int) -> None:
        self._element(2, "list", self._words.title(self._rng, 2))
        for _ in range(min(self._rng.randint(4, 30), 1 + room // (_LINE * 7))):
            name = self._words.title(self._rng, self._rng.randint(3, 9))
            self._element(3, "listitem", "")
            self._element(4, "image", name)
            self._link(4, name)
            self._text(4, f"${self._rng.randint(1, 900)}.{self._rng.randint(0, 99):02d}")
            self._text(4, f"{_ICON} {self._rng.randint(1, 200)} {self._words.draw(self._rng, 2)}")
            self._button(4, "Add to " + self._site.menu[0])


@dataclass
class View:
    """What a visitor sees of a page.

    Attributes:
        page: as it is made.
        lines: its lines after what the visitor did.
        action: what can be done next is told by the page; this is what was done last, None at first.
    """

    page: Page
    lines: list[str]
    action: str | None = None

    def tree(self) -> str:
        """The accessibility tree."""
        return "\n".join(self.lines)


def visit(site: Site, rng: random.Random, action: str | None = None) -> View:
    """A page of the site as it is on this visit: some of its numbers and names are others than on the last one."""
    page = site.page(site.draw_page(rng))
    lines = list(page.lines)
    for _ in range(len(lines) // 40):
        position = rng.randrange(len(lines))
        if "gridcell '" in lines[position] or "StaticText '" in lines[position]:
            head, _, _ = lines[position].partition("'")
            rest = ", visible" if "[" in head else ""
            lines[position] = f"{head}{site.words.draw(rng, rng.randint(1, 5))!r}{rest}"
    return View(page, lines, action)


def step(site: Site, rng: random.Random, view: View) -> View:
    """The next view: another page, or the same one with a field filled, a choice opened or a message shown."""
    page, kind = view.page, rng.random()
    if kind < 0.45 and page.links:
        return visit(site, rng, f"click('{element(view.lines[rng.choice(page.links)])}')")
    if kind < 0.5:
        target = visit(site, rng)
        return View(target.page, target.lines, f"goto('{target.page.url}')")
    lines = list(page.lines if rng.random() < 0.1 else view.lines)
    if kind < 0.72 and page.fields:
        position = rng.choice(page.fields)
        text = site.words.draw(rng, rng.randint(1, 4))
        head, _, rest = page.lines[position].partition(", ")
        lines[position] = f"{head} value={text!r}, focused, {rest}"
        return View(page, lines, f"fill('{element(head)}', {text!r})")
    if kind < 0.85 and page.choices:
        position = rng.choice(page.choices)
        lines[position] = page.lines[position].replace("expanded=False", "expanded=True")
        return View(page, lines, f"click('{element(page.lines[position])}')")
    if kind < 0.9:
        return View(page, lines, "scroll(0, 400)")
    if not page.links:
        return View(page, lines, "noop()")
    # The message takes the place of the heading, so that the positions of all else stay.
    lines[page.rows[0][0] - 1] = f"\t\talert {site.words.title(rng, rng.randint(4, 12))!r}, live='assertive', atomic"
    return View(page, lines, f"click('{element(page.lines[rng.choice(page.links)])}')")
