"""An agent's output as a context: markdown, spans, states with their screenshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unit.test_memory_render import FOCUSED, FULL, QUERY, make_run

from lmev2.agent.output import Span
from lmev2.memory.agent_render import render_output
from lmev2.memory.settings import RenderSettings

MARKDOWN = "## Support Analysis\nState 2 of run1 shows it.\n"


class Store:
    """Two runs of four states, and one whose middle state answers the question."""

    def __init__(self) -> None:
        self.runs = {name: make_run(4, name=name, goal=f"Goal of {name}") for name in ("run1", "run2")}
        self.runs["run3"] = make_run(
            3, name="run3", tree={1: "RootWebArea 'Order'\n\tStaticText 'Courier: Parcel Post'"}
        )

    def trajectory(self, name: str) -> Any:
        return self.runs[name]


def rendered(spans: list[Span], settings: RenderSettings = FULL, markdown: str = MARKDOWN) -> list[Any]:
    return render_output(markdown, spans, QUERY, Store(), settings)  # type: ignore[arg-type]


def test_a_full_context_word_for_word() -> None:
    items = rendered([Span("run2", 1, 2), Span("run1", 0, 0)])
    assert [(one.type, one.trajectory_id, one.states) for one in items] == [
        ("text", None, ()),
        ("text", None, ()),
        ("text", "run2", ()),
        ("text", "run2", (1,)),
        ("image", "run2", (1,)),
        ("text", "run2", (2,)),
        ("image", "run2", (2,)),
        ("text", "run1", ()),
        ("text", "run1", (0,)),
        ("image", "run1", (0,)),
    ]
    assert items[0].value == MARKDOWN.strip()
    assert items[1].value == "## Trajectory spans\n1. run2, states 1-2\n2. run1, states 0-0"
    assert items[2].value == (
        """### Span 1. run2, states 1-2
Goal: Goal of run2
Start URL: http://shop.test
Actions:
  0 -> 1: click('a1') -> [a1] link 'Go 1', clickable
  1 -> 2: click('a2') -> [a2] link 'Go 2', clickable
  2 -> 3: click('a3') -> [a3] link 'Go 3', clickable"""
    )
    assert items[3].value == (
        """[State 1 (step 12)]
URL: http://shop.test/p1
Action that led here: click('a1') -> [a1] link 'Go 1', clickable
Accessibility tree:
RootWebArea 'Page 1'
	[a2] link 'Go 2', clickable
	StaticText 'Line 1'"""
    )
    assert items[8].value.splitlines()[2] == "Action that led here: none (first state)"
    assert items[4].value == str(Path("/shots/1.png"))


def test_without_spans_or_without_text() -> None:
    assert [one.value for one in rendered([])] == [MARKDOWN.strip()]
    only = rendered([Span("run1", 3, 3)], markdown=" \n")
    assert only[0].value.startswith("## Trajectory spans\n1. run1") and len(only) == 4


def test_focused_shows_what_bears_on_the_question_and_says_which_states() -> None:
    items = rendered([Span("run3", 0, 2)], FOCUSED, markdown="x" * 900)
    assert items[0].value == "x" * 399 + "…"
    text = items[1]
    assert "Courier: Parcel Post" in text.value and 1 in text.states and text.trajectory_id == "run3"
    assert len(text.value) < 600
    pictures = [one for one in items if one.type == "image"]
    assert len(pictures) == len({one.value for one in pictures})


def test_focused_repeats_no_picture() -> None:
    items = rendered([Span("run1", 1, 2), Span("run1", 2, 3)], FOCUSED)
    pictures = [one.value for one in items if one.type == "image"]
    assert pictures == ["/shots/1.png", "/shots/2.png", "/shots/3.png"]
