"""Choosing among a block of search results by the controller's model; optional, and off in the paper."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lmev2.memory.settings import RerankSettings
from lmev2.models.json_reply import UnusableReplyError, ask_json
from lmev2.models.request import make_request
from lmev2.models.settings import ChatSettings
from lmev2.models.types import ChatBackend
from lmev2.prompts import Prompt

_log = logging.getLogger("lmev2")

BLOCK_TITLES = {
    "raw_state": "raw state slices",
    "event": "state-transition events",
    "procedure_note": "procedure notes",
    "hint_note": "hint notes",
}


RerankOrigin = Literal["model", "repaired", "fallback"]
_BEST_FIRST: tuple[RerankOrigin, ...] = ("model", "repaired", "fallback")


@dataclass(frozen=True)
class Choice:
    """What stays of a block.

    Attributes:
        positions: of the candidates to keep, from 0, the most useful first.
        origin: whose choice it is: the model's first reply, its repair, or the fallback; None without a call.
    """

    positions: tuple[int, ...]
    origin: RerankOrigin | None


def worst_origin(origins: Iterable[RerankOrigin | None]) -> RerankOrigin | None:
    """The origin furthest from a model's first reply; None where no call was made."""
    return max(filter(None, origins), key=_BEST_FIRST.index, default=None)


class RerankReply(BaseModel):
    """The model's choice: numbers of candidates, the most useful first, and one sentence why."""

    model_config = ConfigDict(extra="forbid")

    keep: list[int] = Field(min_length=1, description="numbers of the candidates to keep, the most useful first")
    reason: str = Field(description="one sentence")


class Reranker:
    """Picks the useful entries of a block of search results.

    Args:
        chat: the controller.
        chat_settings: sampling and thinking of the controller's role.
        prompt: the rerank prompt.
        settings: how many candidates it sees, and how many stay when it gives no usable choice.
    """

    def __init__(self, chat: ChatBackend, chat_settings: ChatSettings, prompt: Prompt, settings: RerankSettings):
        self._chat, self._chat_settings, self._prompt, self._settings = chat, chat_settings, prompt, settings

    @property
    def candidates(self) -> int:
        """How many results of a block the model sees; later ones are dropped."""
        return self._settings.candidates

    def choose(self, question: str, table: str, candidates: Sequence[str]) -> Choice:
        """The candidates to keep, the most useful first.

        A single candidate is kept without a call. Numbers that name no candidate and repeats are passed over. Where no
        usable choice comes back after one repair, the first candidates stay, in the search's order: as many as the
        settings say.

        Args:
            question: the question's text.
            table: the index table that the block comes from.
            candidates: one text each, best match first, at most ``self.candidates``.

        Raises:
            ModelCallError: a call failed; this never falls back.
        """
        if len(candidates) < 2:
            return Choice(tuple(range(len(candidates))), None)
        numbered = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(candidates, start=1))
        messages = self._prompt.render_messages(question=question, block=BLOCK_TITLES[table], candidates=numbered)
        request = make_request(self._chat_settings, messages, role="controller")
        try:
            value, origin = ask_json(self._chat, request, RerankReply, repair_cut=True)
            kept = dict.fromkeys(number - 1 for number in value["keep"] if 1 <= number <= len(candidates))
            if kept:
                return Choice(tuple(kept), origin)
            fault = f"it names none of the {len(candidates)} candidates"
        except UnusableReplyError as error:
            fault = error.detail
        _log.warning("choice among %s falls back to the first ones: %s", BLOCK_TITLES[table], fault)
        first = self._settings.keep_raw_state if table == "raw_state" else self._settings.keep_other
        return Choice(tuple(range(len(candidates)))[:first], "fallback")
