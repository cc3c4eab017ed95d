"""Settings of the pilot studies: who answers, from which contexts (paper, Figure 4 and Table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from lmev2.models.settings import ChatSettings, PriceSettings, ReaderSettings
from lmev2.settings import Settings

ContextKind = Literal["no_context", "oracle_trajectories", "oracle_slices_notes", "oracle_trajectory_files"]
NO_CONTEXT: Final = "no_context"
FILES: Final = "oracle_trajectory_files"
# Contexts that a reader is shown, and that are cut to its budget.
SHOWN: Final[tuple[ContextKind, ...]] = ("oracle_trajectories", "oracle_slices_notes")
CONTEXT_LABELS: Final[dict[str, str]] = {
    "no_context": "No context",
    "oracle_trajectories": "Oracle trajectories",
    "oracle_slices_notes": "Oracle slices + notes",
    "oracle_trajectory_files": "Oracle trajectory files",
}

READER: Final = "reader"  # the role models.reader
AGENT: Final = "agent"  # the role models.agent
_TAKEN: Final = ("reader", "judge", "controller", "embedder", "agent")


class PilotReaderSettings(ReaderSettings):
    """A reader of the pilot studies, besides the run's own.

    Attributes:
        label: its name in tables and figures; null: made of model and settings, as the paper writes it.
        price: what tokens cost; cached input is counted as any other, since answers do not say how much there was.
    """

    label: str | None = None
    price: PriceSettings = PriceSettings()


class Figure4Settings(Settings):
    """Answers from oracle contexts, to the questions without a flawed premise.

    Attributes:
        readers: names of ``pilots.readers``; ``reader`` is the run's own.
        contexts: what they are shown. ``oracle_trajectory_files`` is the work of the coding agent, ``models.agent``.
        beside: methods whose rows stand beside these, where the run has them.
    """

    readers: tuple[str, ...] = (READER,)
    contexts: Annotated[tuple[ContextKind, ...], Field(min_length=1)] = (NO_CONTEXT, *SHOWN)
    beside: tuple[str, ...] = ("rag_slice_notes",)

    def cells(self) -> list[tuple[str, ContextKind]]:
        """Who answers from what, in the order of the table; files are the coding agent's."""
        cells: list[tuple[str, ContextKind]] = []
        cells += [(reader, context) for reader in self.readers for context in self.contexts if context != FILES]
        return [*cells, (AGENT, FILES)] if FILES in self.contexts else cells

    @model_validator(mode="after")
    def _no_idle_keys(self) -> Self:
        for name, values in (("readers", self.readers), ("contexts", self.contexts), ("beside", self.beside)):
            if len(set(values)) != len(values):
                raise ValueError(f"{name} names something twice: {list(values)}")
        shown = [name for name in self.contexts if name != FILES]
        if bool(shown) != bool(self.readers):
            raise ValueError(
                f"readers is {list(self.readers)} and contexts for readers are {shown}: one without the other has no "
                f"effect ({FILES} is for the coding agent)"
            )
        return self


class Table6Settings(Settings):
    """Direct answers without any context. ``readers``: names of ``pilots.readers``, or ``reader``, the run's own."""

    readers: tuple[str, ...] = ()

    def cells(self) -> list[tuple[str, ContextKind]]:
        """Who answers, from nothing."""
        return [(reader, NO_CONTEXT) for reader in self.readers]

    @model_validator(mode="after")
    def _no_repeats(self) -> Self:
        if len(set(self.readers)) != len(self.readers):
            raise ValueError(f"readers names something twice: {list(self.readers)}")
        return self


class PilotSettings(Settings):
    """The pilot studies. ``readers`` defines further readers by name."""

    readers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")], PilotReaderSettings] = Field(
        default_factory=dict
    )
    figure4: Figure4Settings = Figure4Settings()
    table6: Table6Settings = Table6Settings()

    @model_validator(mode="after")
    def _known_readers(self) -> Self:
        taken = sorted(set(self.readers) & set(_TAKEN))
        if taken:
            raise ValueError(f"readers: {taken} are names of roles; choose others")
        known = [READER, *self.readers]
        for section, names in (("figure4", self.figure4.readers), ("table6", self.table6.readers)):
            missing = [name for name in names if name not in known]
            if missing:
                raise ValueError(f"{section}.readers names {missing}, but there are only {known}")
        shown = set(SHOWN) & set(self.figure4.contexts)
        named = [name for name in self.figure4.readers if name in self.readers]
        blind = [name for name in named if shown and not self.readers[name].context_tokens]
        if blind:
            raise ValueError(f"figure4.readers: {blind} have context_tokens 0 and can be shown no context")
        return self

    def asked(self) -> list[str]:
        """All readers that some context is for, in order."""
        return list(dict.fromkeys([*self.figure4.readers, *self.table6.readers]))


def model_name(settings: ChatSettings, agent: str = "") -> str:
    """A model as the paper writes it: with its reasoning effort or its thinking, and the agent around it.

    Args:
        agent: name of the coding agent that works with it.
    """
    manner = settings.reasoning_effort or ("thinking" if settings.thinking else "")
    name = f"{settings.model} ({manner})" if manner else settings.model
    return f"{agent.capitalize()} + {name}" if agent else name


def published_name(name: str, published: Sequence[str]) -> str | None:
    """The published name that a model's own name is, whatever their capitals; None if the paper has none such."""
    return next((one for one in published if one.casefold() == name.casefold()), None)
