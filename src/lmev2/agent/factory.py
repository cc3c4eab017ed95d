"""Agents from settings: the one place that knows them all. Each is imported when it is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmev2.agent.settings import AgentSettings
from lmev2.agent.types import Agent
from lmev2.models.types import ChatBackend


def open_agent(settings: AgentSettings, chat: Callable[[], ChatBackend], pipeline: Path) -> Agent:
    """The agent that the settings name, not yet checked.

    Args:
        settings: the role ``agent``, with the reasoning effort of the row.
        chat: makes the chat model of agent ``loop``.
        pipeline: folder of the Snakefile, where ``make codex`` installs.
    """
    if settings.agent == "search":
        from lmev2.agent.search import SearchAgent

        return SearchAgent()
    if settings.agent == "codex":
        from lmev2.agent.codex import CodexAgent

        return CodexAgent(settings, pipeline)
    from lmev2.agent.loop import LoopAgent

    return LoopAgent(settings, chat)
