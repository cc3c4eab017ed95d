"""Prompt files: sections, placeholders, and the texts of the paper's tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmev2.models.types import ImagePart, Message, TextPart
from lmev2.prompts import Prompt, PromptError, load_prompt

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = ROOT / "workflow" / "prompts"
PAPER = ROOT.parent / "shared" / "seed"

# Row of the paper's table: the table's number, the row's first cell.
JUDGES = {"judge_abstention": "Abstention judge", "judge_gotchas": "Gotchas judge"}
CONTROLLERS = {"note": "Procedure and hint note generation", "event": "State-transition event generation"}
READERS = {"reader_web": "System prompt, WebArena", "reader_enterprise": "System prompt, WorkArena"}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prompt.md"
    path.write_text(text, encoding="utf-8")
    return path


def squeeze(text: str) -> str:
    return " ".join(text.split())


def table_cell(number: int, row: str) -> str:
    files = sorted(PAPER.glob("*.txt")) if PAPER.is_dir() else []
    if not files:
        pytest.skip(f"the paper's tables are not below {PAPER}")
    text = files[0].read_text(encoding="utf-8")
    table = re.search(rf"^Table {number}:.*?(?=^Table {number + 1}:)", text, re.MULTILINE | re.DOTALL)
    assert table is not None
    (cell,) = [line.split("\t", 1)[1] for line in table.group().split("\n") if line.startswith(f"{row}\t")]
    return squeeze(cell)


# Loading


def test_sections_are_read_and_remarks_are_not(tmp_path: Path) -> None:
    prompt = load_prompt(write(tmp_path, "# A remark\n\n## System\n\nBe {tone}.\n\n## User\n### Q\n## Other\n{q}\n\n"))
    assert (prompt.system, prompt.user) == ("Be {tone}.", "### Q\n## Other\n{q}")
    assert prompt.placeholders == {"tone", "q"}
    assert prompt.render(tone="kind", q="Why?") == ("Be kind.", "### Q\n## Other\nWhy?")


def test_system_is_optional(tmp_path: Path) -> None:
    rendered = load_prompt(write(tmp_path, "## User\n{q}")).render(q="Why?")
    assert rendered.messages() == (Message.text("user", "Why?"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Just text", "found none"),
        ("## System\nA", "found ## System"),
        ("## User\nA\n## User\nB", "found ## User, ## User"),
        ("### User\nA", "found none"),
        ("## System\n\n## User\nA", "'## System' is empty"),
        ("## System\nA\n## User\n \n", "'## User' is empty"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(PromptError) as caught:
        load_prompt(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"absent\.md: cannot be read"):
        load_prompt(tmp_path / "absent.md")


# Rendering


def test_only_lower_case_names_are_placeholders() -> None:
    user = (
        r'{a_1} {} { b } {B} {a b} {1a} {"label": 0 or 1} \boxed{UNKNOWN} \boxed{answer} \boxed{} {{a_1}} event_{a_1}'
    )
    prompt = Prompt("", user)
    assert prompt.placeholders == {"a_1"}
    assert prompt.render(a_1="X").user == user.replace("{a_1}", "X")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": "1"}, r"no value for \['b'\]"),
        ({"a": "1", "b": "2", "c": "3"}, r"no placeholder for \['c'\]"),
        (
            {"a": "1", "c": "3"},
            r"no value for \['b'\] and no placeholder for \['c'\]; its placeholders are \['a', 'b'\]",
        ),
    ],
)
def test_values_and_placeholders_must_agree(values: dict[str, str], said: str) -> None:
    prompt = Prompt("{a}", "{b}", "file.md")
    with pytest.raises(PromptError, match=said):
        prompt.render(**values)
    with pytest.raises(PromptError, match=said):
        prompt.render_messages(**values)


@given(st.text(), st.text())
def test_values_are_never_expanded(one: str, two: str) -> None:
    tricky = r"{two} \1 \g<0> {one} {"
    rendered = Prompt("s {one}", "{one}|{two}|{one}").render(one=one + tricky, two=two + tricky)
    assert rendered.system == f"s {one}{tricky}"
    assert rendered.user == f"{one}{tricky}|{two}{tricky}|{one}{tricky}"


def test_parts_keep_their_place_in_the_user_message() -> None:
    image = ImagePart(Path("a.png"))
    prompt = Prompt("s {q}", "Context:\n{context}\nQ: {q}")
    messages = prompt.render_messages(context=[TextPart("one"), image, TextPart(""), TextPart("{q}")], q="Why?")
    assert messages == (
        Message.text("system", "s Why?"),
        Message("user", (TextPart("Context:\none"), image, TextPart("{q}\nQ: Why?"))),
    )
    assert Prompt("", "{a}{b}").render_messages(a=[image], b=[image])[0].parts == (image, image)


def test_texts_render_alike_in_both_ways() -> None:
    prompt = Prompt("s {q}", "Q: {q} of {n}")
    assert prompt.render_messages(q="Why?", n="2") == prompt.render(q="Why?", n="2").messages()


def test_system_takes_no_parts() -> None:
    with pytest.raises(PromptError, match="the system prompt takes text only"):
        Prompt("{a}", "{b}").render_messages(a=[TextPart("x")], b="y")


# The paper's prompts


@pytest.mark.parametrize("name", JUDGES)
def test_judge_prompts_have_their_placeholders(name: str) -> None:
    assert load_prompt(PROMPTS / f"{name}.md").placeholders == {
        "question_text",
        "reference_answer",
        "model_full_response",
        "model_final_answer",
    }


@pytest.mark.parametrize("name", READERS)
def test_reader_prompts_have_their_placeholders_and_layout(name: str) -> None:
    rendered = load_prompt(PROMPTS / f"{name}.md").render(memory_context="CONTEXT", question="QUESTION")
    assert rendered.user == "### Memory context:\nCONTEXT\n\n### Question to answer:\nQUESTION"
    assert r"\boxed{UNKNOWN}" in rendered.system
    assert r"in \boxed{} explaining" in rendered.system


@pytest.mark.parametrize(("name", "row"), JUDGES.items())
def test_judge_prompts_are_those_of_table_5(name: str, row: str) -> None:
    prompt = load_prompt(PROMPTS / f"{name}.md")
    assert squeeze(f"System: {prompt.system} User: {prompt.user}") == table_cell(5, row)


@pytest.mark.parametrize(("name", "row"), READERS.items())
def test_reader_prompts_are_those_of_table_4(name: str, row: str) -> None:
    prompt = load_prompt(PROMPTS / f"{name}.md")
    assert squeeze(prompt.system) == table_cell(4, row)
    user = prompt.user.replace("{memory_context}", "{memory context returned by the memory module, after truncation}")
    user = user.replace("{question}", "{question text}")
    rest = " If the question contains an image, the image is appended after the question text."
    assert squeeze(user) + rest == table_cell(4, "User prompt")


@pytest.mark.parametrize(
    ("name", "placeholders"),
    [
        ("note", {"goal", "outcome", "start_url", "states"}),
        ("event", {"state_i", "state_j", "goal", "outcome", "actions", "pre_state", "post_state"}),
    ],
)
def test_controller_prompts_have_their_placeholders(name: str, placeholders: set[str]) -> None:
    assert load_prompt(PROMPTS / f"{name}.md").placeholders == placeholders


@pytest.mark.parametrize(("name", "row"), CONTROLLERS.items())
def test_prompts_of_notes_and_events_are_those_of_table_9(name: str, row: str) -> None:
    """Word for word, but for the full stops with which the table runs fields together, and for what it abbreviates."""
    prompt = load_prompt(PROMPTS / f"{name}.md")
    user = prompt.user.replace(
        "{states}", "Then include the ordered state blocks, thoughts, annotated actions, and screenshots."
    )
    for state in ("{pre_state}", "{post_state}"):
        user = user.replace(state, "{url, thoughts, action, AXTree, screenshot}")
    system, _, fields = table_cell(9, row).removeprefix("System: ").partition(" User: ")
    assert squeeze(prompt.system) == system
    ours, table = (re.sub(r"\}\.(?= |$)", "}", text) for text in (squeeze(user), fields))
    assert ours == table != fields
