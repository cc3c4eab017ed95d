"""What coding agents need, looked for when a run starts: before anything is computed, long before they are asked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lmev2.agent.factory import open_agent
from lmev2.agent.isolation import check_isolation
from lmev2.agent.settings import AgentSettings
from lmev2.models.types import ChatBackend, ModelSetupError

AGENT_RULES = ("query_agent_memory", "answer_oracle_files")


def check_agents(
    rules: Iterable[str], settings: AgentSettings, pipeline: Path, data_root: Path, cache: Path
) -> str | None:
    """Look for the isolation, the agent's program and version, and its endpoint, if a planned job asks an agent.

    Where the call cache holds results of agents already, a lack is no error yet: they may be all that is needed.

    Args:
        rules: names of the rules whose jobs will run.
        settings: the role ``agent``.
        pipeline: folder of the Snakefile.
        data_root: must not lie where every sandbox can read.
        cache: folder of the call cache.

    Returns:
        What is missing, where it may not matter; None if nothing is.

    Raises:
        ModelSetupError: something is missing; says what, and how to get it.
    """
    if not set(rules) & set(AGENT_RULES):
        return None
    try:
        check_isolation(settings.isolation, [data_root])
        open_agent(settings, _no_chat, pipeline).check()
    except ModelSetupError as error:
        kept = cache / "agent"
        if kept.is_dir() and any(kept.iterdir()):
            return f"{error}. Going on with the results that {kept} holds; a question that is not among them will fail"
        raise
    return None


def _no_chat() -> ChatBackend:
    raise ModelSetupError("a check of what an agent needs calls no model")
