"""The reader stage: a fixed language model answers each question from its memory context (paper, Table 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from lmev2.models.settings import ReaderSettings
from lmev2.models.text import well_formed
from lmev2.models.types import ChatBackend, ChatRequest, ImagePart, Message, ModelCallError, Sampling, TextPart
from lmev2.progress import Report
from lmev2.prompts import Prompt
from lmev2.scoring.boxed import is_unknown, parse_prediction
from lmev2.truncate import NOTHING, FittedContext, fit_context


def answer_rows(
    questions: Sequence[Mapping[str, Any]],
    contexts: Mapping[str, Mapping[str, Any]],
    chat: ChatBackend,
    settings: ReaderSettings,
    prompts: Mapping[str, Prompt],
    report: Report,
) -> list[dict[str, Any]]:
    """Answer rows of the questions, in order.

    Args:
        questions: question rows.
        contexts: context rows by question id; a context with an error kind is not read, its error goes on.
        chat: the reader.
        settings: the reader's settings.
        prompts: reader prompt by domain (``web``, ``enterprise``).
        report: progress callback.
    """

    def answer(question: Mapping[str, Any]) -> dict[str, Any]:
        return _answer(question, contexts[question["question_id"]], chat, settings, prompts[question["domain"]])

    return list(_in_order(answer, questions, settings.concurrency, report))


def _in_order(
    answer: Callable[[Mapping[str, Any]], dict[str, Any]],
    questions: Sequence[Mapping[str, Any]],
    concurrency: int,
    report: Report,
) -> Iterator[dict[str, Any]]:
    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        futures = [pool.submit(answer, question) for question in questions]
        try:
            for done, finished in enumerate(as_completed(futures), start=1):
                finished.result()  # an unforeseen exception ends the job; finished calls are in the cache
                report(done, len(futures))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        yield from (future.result() for future in futures)


def _answer(
    question: Mapping[str, Any], context: Mapping[str, Any], chat: ChatBackend, settings: ReaderSettings, prompt: Prompt
) -> dict[str, Any]:
    row = _empty_row(context, chat.model) | {"images_shown": settings.images}
    if context["error"] is not None:
        return row | {"error": context["error"], "error_detail": context["error_detail"]}
    try:
        # Nothing to count needs no counter: models that answer without context may have none.
        fitted = NOTHING
        if context["items"]:
            fitted = fit_context(context["items"], chat.counter(), settings.context_tokens, settings.images)
        row |= _context_facts(context["items"], fitted)
        if question["image"] and not settings.images:
            row["images_left_out"] += 1
        reply = chat.complete(_request(question, fitted, settings, prompt))
    except ModelCallError as error:
        return row | {"error": error.kind, "error_detail": error.detail}
    text = well_formed(reply.text)  # half a surrogate pair cannot be stored
    parsed = parse_prediction(text)
    row |= {
        "reply": text,
        "parsed": parsed,
        "unknown": is_unknown(parsed),
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "wall_s": reply.wall_s,
        "model": reply.model,
        "finish_reason": reply.finish_reason,
    }
    return row | _reply_fault(text, reply.finish_reason)


def _reply_fault(text: str, finish_reason: str) -> dict[str, str]:
    """Error kind and detail of a reply that is no answer; empty for an answer."""
    if finish_reason == "length":
        return {"error": "length", "error_detail": f"the reply was cut at max_tokens; its end: …{text[-120:]!r}"}
    if finish_reason != "stop" or not text.strip():
        return {"error": "malformed_reply", "error_detail": f"finish reason {finish_reason!r}, text {text[:120]!r}"}
    return {}


def question_messages(
    question: Mapping[str, Any], parts: Sequence[TextPart | ImagePart], images: bool, prompt: Prompt
) -> tuple[Message, ...]:
    """What the reader is sent: its prompt with the context's parts, the question, and the question's image.

    Args:
        question: question row.
        parts: the fitted context.
        images: the reader accepts images; if not, a placeholder stands for the question's.
        prompt: the reader prompt of the question's domain.
    """
    text: tuple[TextPart | ImagePart, ...] = (TextPart(question["question"]),)
    if question["image"]:
        text = (*text, ImagePart(Path(question["image"])) if images else TextPart("\n[image left out]"))
    return prompt.render_messages(memory_context=parts, question=text)


def _request(
    question: Mapping[str, Any], fitted: FittedContext, settings: ReaderSettings, prompt: Prompt
) -> ChatRequest:
    return ChatRequest(
        messages=question_messages(question, fitted.parts, settings.images, prompt),
        sampling=Sampling(**settings.sampling.model_dump()),
        grammar=line_grammar(settings.line_chars) if settings.reply_format == "line" else None,
        thinking=settings.thinking,
        reasoning_effort=settings.reasoning_effort,
        role="reader",
        usable=lambda reply: not _reply_fault(reply.text, reply.finish_reason),
    )


# For models too small to end by themselves. A character takes at most four tokens, so max_tokens should be four times
# as many.
def line_grammar(chars: int) -> str:
    """A grammar of one line of at most so many characters."""
    return rf"root ::= [^ \n] [^\n]{{0,{chars - 1}}}"


def _context_facts(items: Sequence[Mapping[str, Any]], fitted: FittedContext) -> dict[str, Any]:
    return {
        "context_tokens_before": fitted.tokens_before,
        "context_tokens": fitted.tokens,
        "items_before": len(items),
        "items_dropped": len(items) - fitted.kept,
        "images_left_out": fitted.images_left_out,
    }


def _empty_row(context: Mapping[str, Any], model: str) -> dict[str, Any]:
    return {
        "question_id": context["question_id"],
        "method": context["method"],
        "tier": context["tier"],
        "reply": "",
        "parsed": "",
        "unknown": False,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "context_tokens_before": 0,
        "context_tokens": 0,
        "items_before": len(context["items"]),
        "items_dropped": 0,
        "images_left_out": 0,
        "wall_s": 0.0,
        "model": model,
        "finish_reason": None,
        "error": None,
        "error_detail": None,
    }
