"""The hint note of a run, by rules: messages, changes, dead ends, and what the touched pages offer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from lmev2.pools.note_changes import changes
from lmev2.pools.note_pages import page_bullets, site_bullet
from lmev2.pools.note_steps import goal_title
from lmev2.pools.note_view import RunView, quote, shorten
from lmev2.pools.settings import NoteSettings
from lmev2.tree import FIELD_ROLES, clean

_INTERACTIVE = FIELD_ROLES | {"button", "link", "menuitem", "tab", "radio"}
_SILENT = frozenset({"noop", "report_infeasible", "scroll", "send_msg_to_user"})
_MOST_CHANGES = 14  # a step that changes more than this shows another page, which page facts describe
_REMARK = re.compile(
    r"\b(?:however|instead|unfortunately|error|fail(?:ed|s)?|timeout|timed out|intercept\w*|disabled|missing|"
    r"mandatory|not (?:visible|available|allowed|enough|possible)|cannot|can't|could not|couldn't|did not|didn't|"
    r"does not|doesn't|no longer|wrong|misread|mistake|turns? out)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class _Section(NamedTuple):
    bullets: list[str]
    chars: int  # what the section may take before the others have had their turn


def hint_note(view: RunView, settings: NoteSettings) -> dict[str, str]:
    """Title, description and content of a run's hint note: the most informative facts first."""
    acted = Counter(step.page for step in view.steps if step.verb not in _SILENT)
    if view.pages:
        acted[view.pages[-1]] += 1
    ranked = sorted(acted, key=lambda page: (-acted[page], view.pages.index(page)))
    others = [page for page in view.page_states if page not in acted]
    share = settings.hint_chars // 100
    sections = [
        _Section(_message_bullets(view), 16 * share),
        _Section(_dead_end_bullets(view), 10 * share),
        _Section(_change_bullets(view), 16 * share),
        _Section(page_bullets(view, ranked), 40 * share),
        _Section(_confusable_bullets(view), 8 * share),
        _Section(_remark_bullets(view), 12 * share),
        _Section(page_bullets(view, others), 0),
        _Section(site_bullet(view), 0),
    ]
    content = _fill(sections, settings.hint_chars) or "- The run left no facts to note."
    pages = ", ".join(quote(page, 70) for page in [*ranked, *others][:8])
    return {
        "title": shorten(f"Hints: {goal_title(view.trajectory.goal, settings.title_chars)}", settings.title_chars),
        "description": f"Labels, option sets, messages and pitfalls seen in {view.trajectory.environment} on {pages}.",
        "content": content,
    }


def _fill(sections: list[_Section], limit: int) -> str:
    """Bullets in the sections' order: each section first up to its share, then the rest while there is room."""
    chosen: set[tuple[int, int]] = set()
    used = 0
    for whole in (False, True):
        for number, section in enumerate(sections):
            taken = 0
            for place, bullet in enumerate(section.bullets):
                size = len(bullet) + 1
                if (number, place) in chosen or used + size > limit + 1:
                    continue
                if not whole and taken + size > section.chars:
                    break
                chosen.add((number, place))
                used += size
                taken += size
    bullets = (b for n, section in enumerate(sections) for p, b in enumerate(section.bullets) if (n, p) in chosen)
    return "\n".join(bullets)


def _message_bullets(view: RunView) -> list[str]:
    found = []
    for step in view.steps:
        for text in step.messages:
            on = f" on page {view.q(step.page_after)}" if step.page_after != step.page else ""
            found.append(f"- After {_gerund(step.words)} on page {view.q(step.page)}: message {view.q(text)}{on}.")
    return list(dict.fromkeys(found))


def _dead_end_bullets(view: RunView) -> list[str]:
    counts: Counter[tuple[str, str]] = Counter()
    worked: set[tuple[str, str]] = set()
    for step in view.steps:
        key = (step.words, step.page)
        if step.verb in _SILENT or step.verb == "focus":
            continue
        if step.changed or step.messages:
            worked.add(key)
        else:
            counts[key] += 1
    found = []
    for (words, page), count in counts.items():
        times = f" ({count} times)" if count > 1 else ""
        verb = "at first changed" if (words, page) in worked else "changed"
        found.append(f"- Trying to {words} on page {view.q(page)} {verb} nothing visible{times}.")
    return found


def _change_bullets(view: RunView) -> list[str]:
    """What appeared, disappeared or took another value on the same page after an action."""
    found = []
    for step in view.steps:
        if step.page != step.page_after or not step.changed or step.verb in _SILENT:
            continue
        change = changes(view, step)
        if len(change.appeared) > _MOST_CHANGES and step.verb in {"go_back", "goto"}:
            continue
        parts = [f"appeared {_listing(change.appeared)}"] if change.appeared else []
        parts += [f"gone {_listing(change.gone)}"] if 0 < len(change.gone) <= _MOST_CHANGES else []
        parts += [f"{view.q(label)} now has the value {view.q(value)}" for label, value in change.values[:4]]
        if parts:
            found.append(f"- After {_gerund(step.words)} on page {view.q(step.page)}: {'; '.join(parts)}.")
    return list(dict.fromkeys(found))


def _listing(labels: Sequence[str]) -> str:
    more = ", …" if len(labels) > _MOST_CHANGES else ""
    return ", ".join(quote(label, 90) for label in labels[:_MOST_CHANGES]) + more


def _confusable_bullets(view: RunView) -> list[str]:
    """Controls that the run acted on and that share their label, or nearly, with other controls of the page."""
    found: dict[str, None] = {}
    for step in view.steps:
        if step.target is None or not step.label or step.verb in _SILENT:
            continue
        tree = view.trees[step.target[0]]
        same: list[str] = []
        near: dict[str, None] = {}
        for position, node in enumerate(tree.nodes):
            if node.role not in _INTERACTIVE or not node.label:
                continue
            if node.label == step.label:
                place = view.place((step.target[0], position))
                same.append(f"{node.role} in {place}" if place else f"{node.role}")
            elif _nearly(node.label, step.label):
                near[node.label] = None
        page = view.q(step.page)
        if 2 <= len(same) <= 5 and len(set(same)) > 1:
            found[f"- {view.q(step.label)} stands {len(same)} times on page {page}: {', '.join(same)}."] = None
        if near:
            others = ", ".join(quote(label, 70) for label in list(near)[:4])
            found[f"- Do not mix up {view.q(step.label)} on page {page} with {others}."] = None
    return list(found)


def _nearly(one: str, other: str) -> bool:
    """Alike but not equal, and not merely by their digits, as record numbers and options of an amount are."""
    bare = [re.sub(r"[\d\W_]+", " ", text.lower()).strip() for text in (one, other)]
    if bare[0] == bare[1] or min(map(len, bare)) < 5:
        return False
    one_words, other_words = (set(text.split()) for text in bare)
    if not one_words & other_words:
        return False
    if (one_words < other_words or other_words < one_words) and len(one_words ^ other_words) <= 2:
        return True
    return SequenceMatcher(None, bare[0], bare[1]).ratio() >= 0.72


def _remark_bullets(view: RunView) -> list[str]:
    """Sentences of the run's thoughts that speak of trouble, at most one a thought, later thoughts first."""
    found: dict[str, str] = {}  # by their first words: an agent repeats itself
    for state in reversed(view.states):
        sentences = [clean(part) for part in _SENTENCE.split(state.thought or "")]
        fitting = [part for part in sentences if 25 <= len(part) <= 280 and _REMARK.search(part)]
        if fitting:
            best = max(fitting, key=lambda part: len(_REMARK.findall(part)))
            found.setdefault(best[:30].lower(), f"- The run noted: {quote(best, 280)}")
    return list(found.values())


def _gerund(words: str) -> str:
    """``click the button`` as ``clicking the button``, for use after a preposition."""
    verb, _, rest = words.partition(" ")
    form = "dragging" if verb == "drag" else verb.removesuffix("e") + "ing"
    return f"{form} {rest}".strip()
