"""How long the contexts are that methods show a reader."""

from __future__ import annotations

from lmev2.costs.assumptions import Assumptions
from lmev2.costs.facts import DataFacts, TrajectoryFacts
from lmev2.costs.roles import ChatRole
from lmev2.memory.merge import share_per_query
from lmev2.memory.settings import AgentMethod, Method, NoneMethod, PluginMethod, RagMethod, RenderSettings
from lmev2.models.settings import ReaderSettings
from lmev2.truncate import EMPTY_CONTEXT

_HEADING = 90  # of an entry, in characters
_STATE = 80  # labels of a state


class ContextSizes:
    """Mean tokens of contexts, before and after they are cut to the reader's budget.

    Retrieval is taken to find an average slice: it is not known which it will be.

    Args:
        role: the reader.
        radius: states on either side of a slice's centre.
    """

    def __init__(self, role: ChatRole, facts: DataFacts, assumed: Assumptions, render: RenderSettings, radius: int):
        self._role, self._assumed, self._render = role, assumed, render
        self.image, self.slice_full = _means(role, facts, radius)
        count = max(len(facts.trajectories), 1)
        self._trajectory = sum(self._whole(one) for one in facts.trajectories.values()) / count
        self._state = sum(
            role.tokens(state.url + state.action + _STATE, state.tree)
            for one in facts.trajectories.values()
            for state in one.states
        ) / max(facts.states, 1)
        self._head = (
            sum(role.tokens(one.goal + one.start_url + one.trace) for one in facts.trajectories.values()) / count
        )

    def of_method(self, method: Method) -> float:
        """Tokens of the context that the reader is shown."""
        return self.cut(self._whole_method(method))

    def cut(self, tokens: float) -> float:
        """Tokens within the reader's budget."""
        assert isinstance(self._role.settings, ReaderSettings)
        return min(tokens, float(self._role.settings.context_tokens))

    def _whole_method(self, method: Method) -> float:
        if isinstance(method, NoneMethod):
            return self._role.tokens(len(EMPTY_CONTEXT))
        if isinstance(method, RagMethod):
            return self._of_rag(method)
        if isinstance(method, AgentMethod):
            return self._of_agent()
        assert isinstance(method, PluginMethod)
        return float("inf")  # unknown, so the budget

    def _of_rag(self, method: RagMethod) -> float:
        heading = self._role.tokens(_HEADING)
        tokens = 0.0
        if "note" in method.pools:
            tokens += 2 * method.top_k.note * (heading + self.note())
        if "event" in method.pools:
            tokens += method.top_k.event * (heading + self._event() + 2 * self.image)
        if "raw_state" in method.pools:
            queries = 1 if method.queries == "question" else round(self._assumed.raw_queries)
            slices = queries * share_per_query(queries, method.top_k.raw_state)
            tokens += slices * (heading + self._slice() + self.image)
        return tokens

    def note(self) -> float:
        """Tokens of a note."""
        whole = self._assumed.note_tokens / 2
        return whole if self._full else min(whole, self._role.tokens(self._render.note_chars + _HEADING))

    def _event(self) -> float:
        whole = self._assumed.event_tokens
        return whole if self._full else min(whole, self._role.tokens(self._render.event_chars))

    def _slice(self) -> float:
        if self._full:
            return self.slice_full
        return min(self.slice_full, self._role.tokens(tree=self._render.slice_chars) + self._role.tokens(_STATE))

    def _of_agent(self) -> float:
        states = self._assumed.agent_context_states
        if self._full:
            spans = max(states / 3, 1)
            return self._assumed.agent_context_tokens + spans * self._head + states * (self._state + self.image)
        text = min(self._assumed.agent_context_tokens, self._role.tokens(self._render.slice_chars))
        return text + states / 3 * self._slice() + states * self.image

    def of_trajectories(self) -> float:
        """Tokens of the whole trajectories with a question's evidence."""
        return self.cut(self._assumed.oracle_trajectories * self._trajectory)

    def of_slices_and_notes(self) -> float:
        """Tokens of a question's evidence windows, with the notes of their trajectories."""
        shown = self._state if self._full else self._slice() / 3
        notes = 2 * self._assumed.oracle_trajectories * self.note()
        return self.cut(self._assumed.oracle_states * (shown + self.image) + notes)

    def _whole(self, trajectory: TrajectoryFacts) -> float:
        text = self._role.tokens(trajectory.goal + trajectory.start_url + trajectory.trace)
        return text + sum(
            self._role.tokens(state.url + state.action + _STATE, state.tree) + self._role.image(state.image)
            for state in trajectory.states
        )

    @property
    def _full(self) -> bool:
        return self._render.mode == "full"


def _means(role: ChatRole, facts: DataFacts, radius: int) -> tuple[float, float]:
    """Mean tokens of a screenshot, and of a slice's text in full rendering, over all states."""
    images = texts = 0.0
    for trajectory in facts.trajectories.values():
        head = role.tokens(trajectory.goal + trajectory.trace)
        states = [
            (state.url + 2 * state.action + _STATE, state.tree, role.image(state.image)) for state in trajectory.states
        ]
        for center in range(len(states)):
            window = states[max(0, center - radius) : center + radius + 1]
            texts += head + role.tokens(sum(one[0] for one in window), sum(one[1] for one in window))
            images += states[center][2]
    count = max(facts.states, 1)
    return images / count, texts / count
