"""The text of the evidence package: where the evidence is, and how the runs behind it went."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .choose import Span
from .files import Candidate, Found, Opened
from .question import Question, words
from .rank import Scored

_LINES = 4  # of a span that are quoted
_LINE_CHARS = 160
_ACTIONS = 8  # of a run that are listed
_RUNS = 3
_BID = re.compile(r"^\[[^\]\s]+\] ")
_FLAGS = re.compile(r"(?:, (?:clickable|visible|focused))+(?=$|,)")


@dataclass(frozen=True)
class Evidence:
    """What was found.

    Attributes:
        question: the question.
        spans: the package, most important first.
        rankings: states with their best lines.
        candidates: trajectories, by id.
        opened: those that were looked into.
    """

    question: Question
    spans: list[Span]
    rankings: list[list[Scored]]
    candidates: Mapping[str, Candidate]
    opened: Mapping[str, Opened]


def write_report(evidence: Evidence) -> str:
    """The Markdown text with its two sections."""
    return "\n".join(
        [
            "## Support Analysis",
            "",
            *_support(evidence),
            "",
            "## Relevant Procedure and Hint Notes",
            "",
            *_runs(evidence),
        ]
    )


def _support(evidence: Evidence) -> list[str]:
    if not evidence.spans:
        return ["No state has the words of the question."]
    lines = []
    scored = {(each.state.trajectory_id, each.state.index): each for each in evidence.rankings[-1]}
    for span in evidence.spans:
        shown = [
            scored[key] for index in range(span.first, span.last + 1) if (key := (span.trajectory_id, index)) in scored
        ]
        states = f"state {span.first}" if span.first == span.last else f"states {span.first} to {span.last}"
        title = next((each.state.title for each in shown if each.state.title), "")
        lines.append(f"- Trajectory {span.trajectory_id}, {states}{f', page {_cut(title)!r}' if title else ''}:")
        if shown:
            best = max(shown, key=lambda each: each.score)
            lines += [f"  - state {best.state.index}: {line}" for line in _quotes(best)]
    missing = _missing_labels(evidence)
    if missing:
        lines.append(
            f"- Not found in any state that was looked at: {', '.join(f'`{each}`' for each in missing)}. If the "
            "question takes it for granted, its premise may be wrong."
        )
    return lines


def _quotes(scored: Scored) -> list[str]:
    """The lines of a state that fit best, without what only the browser needs."""
    lines = (_cut(_FLAGS.sub("", _BID.sub("", line))) for line in scored.best if "RootWebArea" not in line)
    return list(dict.fromkeys(lines))[:_LINES]


def _missing_labels(evidence: Evidence) -> list[str]:
    """Quoted labels of the question that stand in no line that was found; only those whose lines were looked for."""
    lines = {
        words(text)
        for opened in evidence.opened.values()
        for state in opened.states
        for text in (*state.lines, state.title, state.action)
    }
    looked_for = set(evidence.question.strong)
    labels = [(label, words(label)) for label in evidence.question.labels]
    return [
        label
        for label, tokens in labels
        if not looked_for.isdisjoint(tokens) and not any(_contains(line, tokens) for line in lines)
    ]


def _contains(line: tuple[str, ...], tokens: tuple[str, ...]) -> bool:
    size = len(tokens)
    return any(line[start : start + size] == tokens for start in range(len(line) - size + 1))


def _runs(evidence: Evidence) -> list[str]:
    """Goal, result and the actions near the evidence of the runs that it is from."""
    lines: list[str] = []
    for trajectory_id in list(dict.fromkeys(span.trajectory_id for span in evidence.spans))[:_RUNS]:
        run = evidence.candidates[trajectory_id]
        result = "reached its goal" if run.succeeded else "did not reach its goal"
        lines.append(f"- Trajectory {trajectory_id} {result}: {_cut(run.goal, 2 * _LINE_CHARS)}")
        own = [span for span in evidence.spans if span.trajectory_id == trajectory_id]
        opened = evidence.opened.get(trajectory_id)
        states = [state for state in (opened.states if opened else ()) if _near(state, own) and state.action]
        lines += [f"  - to state {state.index}: {_cut(state.action)}" for state in states[:_ACTIONS]]
    return lines or ["No trajectory fits the question."]


def _near(state: Found, spans: list[Span]) -> bool:
    return any(span.first - 1 <= state.index <= span.last + 1 for span in spans)


def _cut(text: str, most: int = _LINE_CHARS) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
