"""Stages of a run with what they ask of a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.plan import FREE


@dataclass
class Work:
    """Calls and tokens; ``cached`` are prompt tokens that are billed as cached ones."""

    calls: float = 0
    prompt: float = 0
    cached: float = 0
    completion: float = 0

    def add(self, prompt: float, completion: float = 0, calls: float = 1, cached: float = 0) -> None:
        """Add calls with the tokens of all of them."""
        self.calls += calls
        self.prompt += prompt
        self.completion += completion
        self.cached += cached

    def __add__(self, other: Work) -> Work:
        return Work(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
        )


@dataclass
class Stage:
    """What a stage asks of a role's model.

    Attributes:
        name: of the stage, for tables.
        role: of the model; a reader of the pilot studies by its name.
        settings: of the role.
        parts: work by method, pool or context.
    """

    name: str
    role: str
    settings: ChatSettings | EmbedderSettings
    parts: dict[str, Work] = field(default_factory=dict)

    def part(self, name: str) -> Work:
        """The work of a part, which is made when it is first asked for."""
        return self.parts.setdefault(name, Work())

    @property
    def work(self) -> Work:
        """The work of all parts together."""
        return sum(self.parts.values(), Work())

    def hours(self) -> float | None:
        """GPU hours at the role's throughput, see :func:`hours`; None where they are unknown."""
        return hours(self.work, self.settings)

    def money(self) -> float | None:
        """What it costs at the role's price, see :func:`money`; None where it is unknown."""
        return money(self.work, self.settings)


def hours(work: Work, settings: ChatSettings | EmbedderSettings) -> float | None:
    """GPU hours: reading and writing one after the other, times the GPUs that this takes. 0 where tokens are paid for
    and there is no throughput, since the GPUs are then another's."""
    rate = settings.throughput
    if rate.prompt is None or rate.completion is None:
        return 0.0 if settings.backend in FREE or settings.price.known() else None
    return (work.prompt / rate.prompt + work.completion / rate.completion) * rate.gpus / 3600


def money(work: Work, settings: ChatSettings | EmbedderSettings) -> float | None:
    """The price of the tokens, in the currency of the role's price. 0 without a price where the model runs in this
    process, or on GPUs that have a throughput."""
    price = settings.price
    if price.input is None or price.cached_input is None or price.output is None:
        return 0.0 if settings.backend != "openai" or settings.throughput.known() else None
    plain = work.prompt - work.cached
    return (plain * price.input + work.cached * price.cached_input + work.completion * price.output) / 1e6
