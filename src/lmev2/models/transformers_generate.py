"""Replies to a batch of prompts by a transformers model: padding, sampling, and where each reply ends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmev2.models.transformers_messages import Prompt
from lmev2.models.types import Sampling


@dataclass(frozen=True)
class Task:
    """A prompt, how its reply is sampled, and the seed of that."""

    prompt: Prompt
    sampling: Sampling
    seed: int

    def group(self) -> tuple[Any, ...]:
        """What tasks of one batch share: what changes the scores of their tokens, and the shapes of their images.

        Completion limits and seeds are each reply's own.
        """
        sampling = self.sampling
        sampled = (sampling.temperature, sampling.top_p, sampling.top_k) if sampling.temperature else ()
        return (*sampled, self.prompt.shape())


@dataclass(frozen=True)
class Written:
    """Tokens of a reply, without the one that ended it, and whether there was one."""

    ids: list[int]
    ended: bool


class SeededChoice:
    """A logits processor that leaves one token a row: drawn from the row's probabilities by the row's own numbers.

    So a reply depends on its seed, not on its neighbours in the batch.
    """

    def __init__(self, seeds: Sequence[int], warpers: Sequence[Any]):
        self._numbers = [random.Random(seed) for seed in seeds]
        self._warpers = warpers

    def __call__(self, ids: Any, scores: Any) -> Any:
        """Scores of shape (rows, vocabulary), all but one of each row minus infinity."""
        import torch

        for warper in self._warpers:
            scores = warper(ids, scores)
        sums = scores.double().softmax(-1).cumsum(-1)
        drawn = torch.tensor([[numbers.random()] for numbers in self._numbers], dtype=sums.dtype, device=sums.device)
        # the first token whose sum exceeds the number drawn; a token without probability is never it
        chosen = torch.searchsorted(sums, drawn * sums[:, -1:], right=True).clamp(max=sums.shape[-1] - 1)
        return torch.full_like(scores, float("-inf")).scatter_(1, chosen, 0.0)


class RowLimits:
    """A stopping criterion: each row ends at its own completion limit."""

    def __init__(self, width: int, limits: Sequence[int]):
        self._width = width
        self._limits = limits

    def __call__(self, ids: Any, scores: Any, **_: Any) -> Any:
        """Whether each row has reached its limit, of shape (rows,)."""
        import torch

        return torch.tensor(self._limits, device=ids.device) <= ids.shape[1] - self._width


def padded(prompts: Sequence[Prompt], pad: int) -> dict[str, Any]:
    """Inputs of a batch: rows are padded on the left, so that all replies begin at one place."""
    import torch

    width = max(len(prompt.ids) for prompt in prompts)

    def rows(numbers: Sequence[list[int]], filler: int) -> Any:
        return torch.tensor([[filler] * (width - len(row)) + row for row in numbers])

    inputs = {
        "input_ids": rows([prompt.ids for prompt in prompts], pad),
        "attention_mask": rows([[1] * len(prompt.ids) for prompt in prompts], 0),
    }
    for name in prompts[0].types:
        inputs[name] = rows([prompt.types[name] for prompt in prompts], 0)
    for name in prompts[0].pictures:
        inputs[name] = torch.cat([prompt.pictures[name] for prompt in prompts])
    return inputs


def generate(model: Any, tasks: Sequence[Task], ends: frozenset[int], pad: int) -> list[Written]:
    """Replies to tasks of one group, in order.

    Args:
        model: a transformers model that generates.
        ends: tokens that end a reply.
        pad: the token to pad with.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    inputs = {name: tensor.to(model.device) for name, tensor in padded([task.prompt for task in tasks], pad).items()}
    inputs = {name: tensor.to(model.dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
    width = inputs["input_ids"].shape[1]
    limits = [task.sampling.max_tokens for task in tasks]
    choice = [SeededChoice([task.seed for task in tasks], _warpers(tasks[0].sampling))]
    with torch.inference_mode():
        ids = model.generate(
            **inputs,
            max_new_tokens=max(limits),
            do_sample=False,
            logits_processor=LogitsProcessorList(choice if tasks[0].sampling.temperature else []),
            stopping_criteria=StoppingCriteriaList([RowLimits(width, limits)]),
        )
    return [_written(row, limit, ends) for row, limit in zip(ids[:, width:].tolist(), limits, strict=True)]


def _written(ids: list[int], limit: int, ends: frozenset[int]) -> Written:
    for position, token in enumerate(ids[:limit]):
        if token in ends:
            return Written(ids[:position], True)
    return Written(ids[:limit], False)


def _warpers(sampling: Sampling) -> list[Any]:
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    warpers: list[Any] = []
    if sampling.temperature:
        warpers.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k is not None:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    return warpers
