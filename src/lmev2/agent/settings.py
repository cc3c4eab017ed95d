"""Settings of the role ``agent``: which coding agent explores the haystack's files, and with what model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lmev2.models.settings import ChatSettings, EndpointName, PriceSettings

AgentName = Literal["search", "loop", "codex"]


class AgentSettings(ChatSettings):
    """The coding agent of the rows of family ``agent``; the chat settings are those of its model.

    Attributes:
        agent: ``search``, rules that work in the same sandbox with the same files, no model; ``loop``, a plain agent
            loop over the model; ``codex``, the Codex CLI over an endpoint with the Responses API.
        isolation: ``bubblewrap``, or ``none``: the agent then can read and change whatever this user can.
        program: for ``codex``, its executable; null looks where ``make codex`` installs it, then on PATH.
        version: for ``codex``, the version that must be found.
        attempt_s: seconds of one attempt.
        attempts: tries until there is a usable output.
        max_states: states in all spans together (paper, Table 11).
        max_turns: for ``loop``, model calls of one attempt.
        command_s: for ``loop``, seconds of one command.
        price: what tokens cost.
    """

    agent: AgentName = "search"
    backend: Literal["llama_cpp", "openai", "rules", "scripted"] = "rules"
    model: str = "rules"
    endpoint: EndpointName = "LMEV2_AGENT"
    isolation: Literal["bubblewrap", "none"] = "bubblewrap"
    program: str | None = None
    version: str = "0.117.0"
    attempt_s: Annotated[float, Field(gt=0)] = 1800
    attempts: Annotated[int, Field(ge=1)] = 3
    max_states: Annotated[int, Field(ge=1)] = 20
    max_turns: Annotated[int, Field(ge=1)] = 100
    command_s: Annotated[float, Field(gt=0)] = 120
    price: PriceSettings = PriceSettings()

    @model_validator(mode="after")
    def _model_fits_agent(self) -> Self:
        if (self.agent == "search") != (self.backend == "rules"):
            raise ValueError(
                f"agent {self.agent!r} with backend {self.backend!r}: `search` goes with `rules`, the others with a "
                "model's backend"
            )
        if self.agent == "codex" and self.backend != "openai":
            raise ValueError(f"agent 'codex' talks to an endpoint: set backend to openai, not {self.backend!r}")
        return self
