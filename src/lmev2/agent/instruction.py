"""What a coding agent reads: INSTRUCTION.md and the invocation prompt, assembled from the parts that its sandbox has.

A prompt file marks what belongs to a part: ``<helper>…</helper>`` is kept only with it, ``<no-helper>…</no-helper>``
only without it; marks may stand within each other. With all parts the texts are the paper's (Tables 8 and 11).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lmev2.agent.types import PARTS, PartName
from lmev2.prompts import Prompt, PromptError, load_prompt

INSTRUCTION_PROMPT: Final = "agent_instruction.md"
INVOCATION_PROMPT: Final = "agent_invocation.md"
ORACLE_PROMPT: Final = "agent_oracle.md"
_MARK: Final = re.compile(rf"<(/?)((?:no-)?(?:{'|'.join(PARTS)}))>")
_BLANK_LINES: Final = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class AgentPrompts:
    """The texts of the prompt files, parts still marked.

    Attributes:
        instruction: of INSTRUCTION.md, with the placeholder ``{max_states}``.
        invocation: what an agent is started with.
        oracle_instruction, oracle_invocation: the same of the pilot study's package; no marks.
    """

    instruction: Prompt
    invocation: Prompt
    oracle_instruction: str
    oracle_invocation: str


def load_agent_prompts(folder: Path) -> AgentPrompts:
    """Read the agents' prompt files.

    Args:
        folder: has ``agent_instruction.md``, ``agent_invocation.md`` and ``agent_oracle.md``.

    Raises:
        PromptError: a file is missing or broken; names the file.
    """
    prompts = AgentPrompts(
        load_prompt(folder / INSTRUCTION_PROMPT),
        load_prompt(folder / INVOCATION_PROMPT),
        *load_prompt(folder / ORACLE_PROMPT).render(),
    )
    for prompt, expected in ((prompts.instruction, {"max_states"}), (prompts.invocation, set())):
        if prompt.placeholders != expected or prompt.system:
            raise PromptError(
                f"{prompt.name}: found placeholders {sorted(prompt.placeholders)}, expected {sorted(expected)} and no "
                "section '## System'"
            )
        select_parts(prompt.user, PARTS, prompt.name)
    if not prompts.oracle_instruction:
        raise PromptError(f"{folder / ORACLE_PROMPT}: expected a section '## System' with the package's instruction")
    return prompts


def instruction(prompt: Prompt, parts: Collection[PartName], max_states: int) -> str:
    """INSTRUCTION.md for a sandbox with these parts.

    Args:
        prompt: the instruction with its marks.
        parts: parts that the sandbox has.
        max_states: states that an agent may return (20 in the paper).

    Raises:
        PromptError: the marks do not fit.
    """
    filled = prompt.render(max_states=str(max_states)).user
    return select_parts(filled, parts, prompt.name) + "\n"


def invocation(prompt: Prompt, parts: Collection[PartName]) -> str:
    """The invocation prompt for a sandbox with these parts.

    Raises:
        PromptError: the marks do not fit.
    """
    return select_parts(prompt.render().user, parts, prompt.name)


def select_parts(text: str, parts: Collection[PartName], name: str = "prompt") -> str:
    """The text without its marks and without what belongs to other parts.

    Args:
        text: the marked text.
        parts: the parts that are there.
        name: the prompt file, for error messages.

    Raises:
        PromptError: a mark is not closed, or closed but not open.
    """
    kept: list[str] = []
    open_marks: list[str] = []
    position = 0
    for mark in _MARK.finditer(text):
        if all(_applies(each, parts) for each in open_marks):
            kept.append(text[position : mark.start()])
        position = mark.end()
        if not mark[1]:
            open_marks.append(mark[2])
        elif not open_marks or open_marks.pop() != mark[2]:
            raise PromptError(f"{name}: {mark[0]} closes no <{mark[2]}> that is open there")
    if open_marks:
        raise PromptError(f"{name}: found no </{open_marks[-1]}> for the last <{open_marks[-1]}>")
    kept.append(text[position:])
    return _BLANK_LINES.sub("\n\n", "".join(kept)).strip()


def _applies(mark: str, parts: Collection[PartName]) -> bool:
    without = mark.removeprefix("no-")
    return (without in parts) == (without == mark)
