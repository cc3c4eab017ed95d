"""What coding agents read: the paper's texts, and no word of a part that a sandbox does not have."""

from __future__ import annotations

import hashlib
import re
from itertools import chain, combinations
from pathlib import Path

import pytest
from agentworld import ALL, PROMPTS, ROOT

from lmev2.agent.instruction import instruction, invocation, load_agent_prompts, select_parts
from lmev2.agent.types import PARTS, PartName
from lmev2.prompts import PromptError

PAPER = ROOT.parent / "shared" / "seed"
SUBSETS: list[tuple[PartName, ...]] = list(chain.from_iterable(combinations(PARTS, size) for size in range(4)))
# What betrays a part, besides its own name.
BETRAYS: dict[PartName, str] = {
    "workflow": r"workflow instruction|follow the workflow|first classify|comparison questions",
    "manifest": r"TRAJECTORY_SUMMARY|manifest",
    "helper": r"helper|scripts/|inspect_trajectory|--match",
}
SECTIONS = {
    "Task overview": "Task overview in INSTRUCTION.md",
    "Output requirement": "Output requirement",
    "Workflow instruction": "Workflow instruction",
    "Final rules": "Final rules",
}
# SHA-256 of the paper's texts with single blanks, for checkouts that do not have them at hand.
HASHES = {
    "Task overview": "5bd7975088e761c7765393a2669661999d573679b2f9dfb00d87601d48e33ed5",
    "Output requirement": "c2b6e978d6ef96390228a5cd5ced01ac18d3a8bded84a5136ef0de5a24c2eae2",
    "Workflow instruction": "86d80efbfc023322c1f2dec9cd3c8a3852eed51ebb5d7b89316e82a2044d00a9",
    "Final rules": "c5e8bf403f2d17ae4b67f0aa924cac491fb47b35151cf77f50f52acbf6f9ebf0",
    "invocation": "cc544a28a969544f7478916d9e8f7c7bf984bec4d104b533d8a25f6761ec830e",
    "oracle instruction": "adfe0788ec9e1c20312ec909480b2611fc2b7d98a329497588700ab0943a51ff",
    "oracle invocation": "326507ddf7b8f71eefa488c135be8ce88a08eb7050bfbda00d087f9b377e456e",
}


def squeeze(text: str) -> str:
    return " ".join(text.split())


def table_cell(number: int, row: str) -> str:
    files = sorted(PAPER.glob("*.txt")) if PAPER.is_dir() else []
    if not files:
        pytest.skip(f"the paper's tables are not below {PAPER}")
    text = files[0].read_text(encoding="utf-8")
    start = text.index(f"\nTable {number}:")
    cells = [line.split("\t", 1)[1] for line in text[start:].split("\n") if line.startswith(f"{row}\t")]
    return squeeze(cells[0])


def sections(text: str) -> dict[str, str]:
    _, *rest = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return {name: squeeze(body) for name, body in zip(rest[::2], rest[1::2], strict=True)}


def texts() -> dict[str, str]:
    """Everything that an agent reads with all parts."""
    return {
        **sections(instruction(PROMPTS.instruction, ALL, 20)),
        "invocation": squeeze(invocation(PROMPTS.invocation, ALL)),
        "oracle instruction": squeeze(PROMPTS.oracle_instruction),
        "oracle invocation": squeeze(PROMPTS.oracle_invocation),
    }


def test_sections_stand_in_the_papers_order() -> None:
    assert list(sections(instruction(PROMPTS.instruction, ALL, 20))) == list(SECTIONS)


@pytest.mark.parametrize("name", SECTIONS)
def test_the_instruction_is_the_papers(name: str) -> None:
    assert texts()[name] == table_cell(11, SECTIONS[name])


def test_the_invocation_is_the_papers() -> None:
    assert texts()["invocation"] == table_cell(11, "Codex invocation prompt")


def test_the_oracle_package_reads_as_in_the_paper() -> None:
    assert texts()["oracle instruction"] == table_cell(8, "Package instruction")
    assert texts()["oracle invocation"] == table_cell(8, "Codex invocation prompt")


@pytest.mark.parametrize("name", HASHES)
def test_the_texts_have_not_changed(name: str) -> None:
    assert hashlib.sha256(texts()[name].encode()).hexdigest() == HASHES[name]


@pytest.mark.parametrize("parts", SUBSETS, ids="+".join)
def test_nothing_is_said_of_a_part_that_is_not_there(parts: tuple[PartName, ...]) -> None:
    text = instruction(PROMPTS.instruction, parts, 20) + invocation(PROMPTS.invocation, parts)
    for part, betrays in BETRAYS.items():
        if part not in parts:
            assert re.search(betrays, text, re.IGNORECASE) is None
    assert not re.search(r"</?(no-)?(workflow|manifest|helper)>|\{max_states\}|  |\n\n\n|\s\.", text)
    assert text.count("at most 20 states in total") == 1, "the limit holds for all"
    assert "memory_module_output.json" in text


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_there_is_spoken_of(part: PartName) -> None:
    text = instruction(PROMPTS.instruction, ALL, 20) + invocation(PROMPTS.invocation, ALL)
    assert re.search(BETRAYS[part], text, re.IGNORECASE)


def test_without_the_manifest_the_shortlist_stays() -> None:
    text = instruction(PROMPTS.instruction, ("workflow", "helper"), 20)
    assert "Shortlist only a few likely trajectories using the goal, start URL, action sequence" in text


def test_without_the_workflow_only_its_sentences_go() -> None:
    without = sections(instruction(PROMPTS.instruction, ("manifest", "helper"), 20))
    everything = sections(instruction(PROMPTS.instruction, ALL, 20))
    assert list(without) == ["Task overview", "Output requirement", "Final rules"]
    assert without["Final rules"] == everything["Final rules"]
    assert without["Task overview"] == everything["Task overview"].replace("Follow the workflow and do", "Do")


@pytest.mark.parametrize("parts", [(), ALL])
def test_the_limit_is_the_settings(parts: tuple[PartName, ...]) -> None:
    text = instruction(PROMPTS.instruction, parts, 7)
    assert "at most 7 states in total" in text
    assert "20" not in text


def test_marks_may_stand_within_each_other() -> None:
    text = "a <workflow>b <helper>c </helper>d </workflow><no-helper>e</no-helper>"
    assert select_parts(text, ("workflow", "helper")) == "a b c d"
    assert select_parts(text, ("workflow",)) == "a b d e"
    assert select_parts(text, ("helper",)) == "a"
    assert select_parts("python x <trajectory_id> <i>", ()) == "python x <trajectory_id> <i>"


@pytest.mark.parametrize("text", ["<helper>a", "a</helper>", "<helper>a<manifest>b</helper>c</manifest>"])
def test_marks_that_do_not_fit_are_refused(text: str) -> None:
    with pytest.raises(PromptError, match=r"prompt\.md"):
        select_parts(text, PARTS, "prompt.md")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("agent_instruction.md", "## User\nNo limit", "max_states"),
        ("agent_instruction.md", "## User\n<helper>{max_states}", "no </helper>"),
        ("agent_invocation.md", "## User\n{question}", "question"),
        ("agent_oracle.md", "## User\nAnswer", "## System"),
    ],
)
def test_broken_prompt_files_are_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    for path in (ROOT / "workflow" / "prompts").glob("agent_*.md"):
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(PromptError) as caught:
        load_agent_prompts(tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert said in str(caught.value)
