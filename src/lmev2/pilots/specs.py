"""The ``spec`` params of the rules of the pilot studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lmev2.agent.settings import AgentSettings
from lmev2.config import ConfigError
from lmev2.models.settings import ChatSettings, PriceSettings, ReaderSettings
from lmev2.pilots.settings import AGENT, NO_CONTEXT, READER, SHOWN, PilotReaderSettings, model_name

if TYPE_CHECKING:
    from lmev2.plan import Plan

Spec = dict[str, Any]
Wildcards = dict[str, str]


def _contexts_spec(plan: Plan, wildcards: Wildcards) -> Spec:
    context, reader = wildcards["context"], wildcards["reader"]
    spec = {"context": context, "shard": wildcards["qshard"], "labels": context != NO_CONTEXT}
    if context not in SHOWN:
        return spec | {"render": {"mode": "full"}}  # nothing, or the files that an agent gets
    settings, render = plan.model_settings(reader), plan.config.render
    assert isinstance(settings, ReaderSettings)
    kept = {"mode"} if render.mode == "full" else {"mode", "slice_chars", "note_chars"}
    return spec | {
        "render": render.model_dump(mode="json", include=kept),
        "pilot": reader,
        "reader": plan.counter(reader),
        "context_tokens": settings.context_tokens,
    }


def _answers_spec(plan: Plan, wildcards: Wildcards) -> Spec:
    return {**_names(wildcards), "reader": plan.role(wildcards["reader"]), "allow": plan.config.errors.allow}


def _scores_spec(plan: Plan, wildcards: Wildcards) -> Spec:
    return {**_names(wildcards), "judge": plan.role("judge"), "allow": plan.config.errors.allow}


def _names(wildcards: Wildcards) -> Spec:
    return {"context": wildcards["context"], "pilot": wildcards["reader"]}


def _files_spec(plan: Plan, wildcards: Wildcards) -> Spec:
    agent = plan.role(AGENT)
    agent.pop("max_states", None)  # an answer names no states
    return {"shard": wildcards["qshard"], "agent": agent, "allow": plan.config.errors.allow}


def _figure4_spec(plan: Plan, _: Wildcards) -> Spec:
    def facts(reader: str) -> Spec:
        return {name: value for name, value in reader_facts(plan, reader).items() if name != "price"}

    cells = plan.config.pilots.figure4.cells()
    beside = [
        {
            **facts(READER),
            "context": method,
            "method_label": plan.config.methods[method].label,
            "tier": tier,
        }
        for method, tier in plan.pilot_neighbours()
    ]
    return {
        "cells": [{**facts(reader), "context": context} for reader, context in cells],
        "beside": beside,
        "judge": model_name(plan.config.models.judge),
        "render": plan.config.render.mode,
        "remarks": plan.config.run.notes,
    }


def _table6_spec(plan: Plan, _: Wildcards) -> Spec:
    readers = plan.config.pilots.table6.readers
    if not readers:
        return {"cells": []}  # published rows only
    cells = [reader_facts(plan, reader) for reader in readers]
    return {"cells": cells, "judge": model_name(plan.config.models.judge), "remarks": plan.config.run.notes}


def reader_facts(plan: Plan, reader: str) -> Spec:
    """A reader as tables tell of it.

    Returns:
        ``reader`` (its name in the configuration), ``model``, ``name`` (made of model and settings, as the paper writes
        it), ``label`` (for tables), ``price`` (null where there is none).
    """
    settings = plan.model_settings(reader)
    assert isinstance(settings, ChatSettings)
    name = model_name(settings, settings.agent if isinstance(settings, AgentSettings) else "")
    label, price = None, PriceSettings()
    if isinstance(settings, PilotReaderSettings):
        label = settings.label
    if isinstance(settings, PilotReaderSettings | AgentSettings):
        price = settings.price
    told = price.model_dump(mode="json") if price.known() else None
    return {"reader": reader, "model": settings.model, "name": name, "label": label or name, "price": told}


def check_reader_labels(plan: Plan) -> None:
    """See that who answers in a pilot study can be told apart in its table and figure, which name them by their labels.

    Raises:
        ConfigError: two of a study's readers have the same label; names them, and what to do.
    """
    pilots = plan.config.pilots
    figure4 = [reader for reader, _ in pilots.figure4.cells()]
    studies = {
        "figure4": figure4 + [READER for _ in plan.pilot_neighbours()],  # methods are answered by the run's own
        "table6": list(pilots.table6.readers),
    }
    for study, readers in studies.items():
        names: dict[str, list[str]] = {}
        for reader in dict.fromkeys(readers):
            names.setdefault(str(reader_facts(plan, reader)["label"]), []).append(reader)
        same = {label: found for label, found in names.items() if len(found) > 1}
        if same:
            raise ConfigError(
                f"pilots.{study}: readers must have different labels, found "
                + "; ".join(f"{label!r} of {', '.join(found)}" for label, found in same.items())
                + ". Set `label` of those in pilots.readers"
            )


PILOT_SPECS: dict[str, Callable[[Plan, Wildcards], Spec]] = {
    "build_oracle_contexts": _contexts_spec,
    "read_pilot_answers": _answers_spec,
    "answer_oracle_files": _files_spec,
    "score_pilot_answers": _scores_spec,
    "export_figure4": _figure4_spec,
    "export_table6": _table6_spec,
    "plot_figure4": lambda _, __: {},
}
