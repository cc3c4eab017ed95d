"""A model role as an estimate sees it: tokens of its prompts and replies."""

from __future__ import annotations

from dataclasses import dataclass

from lmev2.costs.facts import Size
from lmev2.costs.tokens import Ratio
from lmev2.models.settings import ChatSettings, ReaderSettings
from lmev2.models.tokens import image_tokens
from lmev2.pools.controller import IMAGE_LEFT_OUT


@dataclass(frozen=True)
class ChatRole:
    """A chat role with its characters per token."""

    settings: ChatSettings
    ratio: Ratio

    def tokens(self, prose: float = 0, tree: float = 0) -> float:
        """Tokens of so many characters of prose and of trees."""
        return prose / self.ratio.prose + tree / self.ratio.tree

    def image(self, size: Size | None) -> float:
        """Tokens of an image, or of the mark that stands for it; 0 without one."""
        if size is None:
            return 0.0
        if not self.settings.images:
            return self.tokens(len(IMAGE_LEFT_OUT))
        return float(image_tokens(*size, self.settings.image_tokens))

    def prompt(self, tokens: float) -> float:
        """Tokens of a prompt, which the model's window limits."""
        return min(tokens, float(self.settings.context_length))

    def reply(self, text: float, thinking: float, switched_off: bool = False) -> float:
        """Tokens of a reply with what is thought before it, where the role thinks.

        Args:
            switched_off: the request switches thinking off; an effort of reasoning is asked for all the same.
        """
        if isinstance(self.settings, ReaderSettings) and self.settings.reply_format == "line":
            text = min(text, self.settings.line_chars / self.ratio.prose)
        thinks = (bool(self.settings.thinking) and not switched_off) or self.settings.reasoning_effort is not None
        return min(text + thinking * thinks, float(self.settings.sampling.max_tokens))
