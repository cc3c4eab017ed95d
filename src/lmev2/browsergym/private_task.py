"""The goal of WorkArena++'s tasks of level 3, which is told on the first page only: a record of a private task."""

from __future__ import annotations

from dataclasses import replace

from lmev2.browsergym.run import Run
from lmev2.tree import Tree

# All that such a task says as its goal (browsergym-workarena 0.5.3).
SENTENCE = "Please complete the following task."
_FIELDS = ("Short description", "Description")


def with_private_task(run: Run) -> Run:
    """The run with the goal that its first page tells: the sentence, a blank line, the private task's short
    description, and its description on the next line.

    Nothing is guessed: the page must show each of the two fields with one value. If it does not, the goal stays the
    sentence, and a note says so. Runs with another goal come back as they are.
    """
    if run.goal.strip() != SENTENCE:
        return run
    tree = Tree(run.steps[0].tree)
    title, text = (_value(tree, label) for label in _FIELDS)
    if title is None or text is None:
        note = (
            f"the goal is only {SENTENCE!r}: the first page shows no one text in the fields {' and '.join(_FIELDS)} of "
            "a private task, which would tell what the task is"
        )
        return replace(run, notes=(*run.notes, note))
    note = "the goal is taken from the private task on the first page"
    return replace(run, goal=f"{SENTENCE}\n\n{title}\n{text}", notes=(*run.notes, note))


def _value(tree: Tree, label: str) -> str | None:
    """What the text fields of a label show; None if they show nothing, or not the same."""
    shown = {tree.nodes[position].value for position in tree.with_role("textbox") if tree.label(position) == label}
    shown -= {None, ""}
    return shown.pop() if len(shown) == 1 else None
