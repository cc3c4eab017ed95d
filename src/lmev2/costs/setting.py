"""What all parts of an estimate look at: the run, the data, the assumptions, and the roles."""

from __future__ import annotations

from functools import cache, cached_property

from lmev2.costs.assumptions import Assumptions
from lmev2.costs.contexts import ContextSizes
from lmev2.costs.facts import DataFacts, QuestionFacts
from lmev2.costs.roles import ChatRole
from lmev2.costs.tokens import Ratio, measure
from lmev2.data.schema import ABSTENTION_SUFFIX
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.plan import Plan
from lmev2.prompts import load_prompt


class Setting:
    """The run, the data and the assumptions; roles are measured when they are first asked for."""

    def __init__(self, plan: Plan, facts: DataFacts, assumed: Assumptions):
        self.plan, self.facts, self.assumed = plan, facts, assumed
        self.ratios: dict[str, Ratio] = {}
        self.template = cache(self._template)
        self.contexts = cache(self._contexts)

    def role(self, name: str) -> ChatRole:
        """A chat role, or a reader of the pilot studies."""
        settings = self.plan.model_settings(name)
        assert isinstance(settings, ChatSettings)
        return ChatRole(settings, self._ratio(name))

    def controller(self) -> ChatRole:
        """The controller."""
        return self.role("controller")

    @cached_property
    def unflawed(self) -> list[QuestionFacts]:
        """The run's questions without a flawed premise, which the pilot studies ask."""
        return [one for one in self.facts.questions if not one.question_type.endswith(ABSTENTION_SUFFIX)]

    @cached_property
    def embedder(self) -> EmbedderSettings:
        """Settings of the embedder."""
        return self.plan.config.models.embedder

    @property
    def embedder_ratio(self) -> Ratio:
        """Characters per token of the embedder."""
        return self._ratio("embedder")

    def embedded(self, tokens: float) -> float:
        """Tokens of a text as the embedder takes it."""
        return min(tokens, float(self.embedder.max_tokens))

    def _ratio(self, name: str) -> Ratio:
        """Characters per token; a role without a tokenizer takes that of another role with the same model."""
        if name not in self.ratios:
            settings = self.plan.model_settings(name)
            facts = self.facts
            found = measure(settings, self.plan.path, facts.texts, facts.trees, self.assumed)
            if not found.measured:
                same = [
                    ratio
                    for other, ratio in self.ratios.items()
                    if ratio.measured and self.plan.model_settings(other).model == settings.model
                ]
                found = same[0] if same else found
            self.ratios[name] = found
        return self.ratios[name]

    def _template(self, name: str) -> int:
        prompt = load_prompt(self.plan.pipeline / "workflow" / "prompts" / f"{name}.md")
        names = sum(len(placeholder) + 2 for placeholder in prompt.placeholders)
        return len(prompt.system) + len(prompt.user) - names

    def _contexts(self, reader: str) -> ContextSizes:
        config = self.plan.config
        return ContextSizes(self.role(reader), self.facts, self.assumed, config.render, config.pools.slice_radius)
