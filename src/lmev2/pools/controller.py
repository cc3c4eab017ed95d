"""What pools written by a model share: the call with its repair, the stated fallback, and many calls at once.

A reply that is no use takes one of the paper's stated paths: a repair call, shorter trees, then a text by rules. Such a
reply is kept in the call cache as it is, so that a repeated run takes the same path without a request. A call that gets
no reply is no such path: it fails the job, after everything else is finished, or passes as a fallback entry where
``errors.allow`` lets it.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeVar

import pydantic

from lmev2.failures import Failure, check_failures
from lmev2.models.json_reply import UnusableReplyError, ask_json
from lmev2.models.request import make_request
from lmev2.models.settings import ControllerSettings
from lmev2.models.types import ChatBackend, ChatRequest, ImagePart, Message, ModelCallError, TextPart
from lmev2.pools.entry import Origin
from lmev2.progress import Report
from lmev2.prompts import Prompt
from lmev2.trajectory import State

IMAGE_LEFT_OUT = "[image left out]"
NO_IMAGE = "[no screenshot recorded]"
NO_THOUGHT = "(no thought recorded)"
FALLBACK_ENTRIES = "fallback entries"
REPAIRED = "the first reply was not the JSON object asked for"
_WORD = re.compile(r"\w")
_TOO_LONG = ("length", "context_overflow")

_log = logging.getLogger("lmev2")
_Task = TypeVar("_Task")


@dataclass(frozen=True)
class Controller:
    """A model that writes pool entries.

    Attributes:
        chat: the model.
        settings: the role's settings.
        prompt: of the pool.
        allow: calls without a reply that become fallback entries before the job fails.
        stage: name of the job, for messages.
    """

    chat: ChatBackend
    settings: ControllerSettings
    prompt: Prompt
    allow: int = 0
    stage: str = "controller"

    def request(self, messages: Iterable[Message], thinking: bool | None = None) -> ChatRequest:
        """A request with the role's settings; ``thinking`` overrides them for a model that can switch."""
        return make_request(self.settings, messages, thinking=thinking, role="controller")

    def screenshot(self, state: State) -> TextPart | ImagePart:
        """A state's screenshot for a prompt; a remark where there is none, or the model sees none."""
        if state.screenshot is None:
            return TextPart(NO_IMAGE)
        return ImagePart(state.screenshot) if self.chat.supports_images else TextPart(IMAGE_LEFT_OUT)

    def images_left_out(self, states: Iterable[State]) -> int:
        """Screenshots of the states that the model does not see."""
        return 0 if self.chat.supports_images else sum(state.screenshot is not None for state in states)


class Written(NamedTuple):
    """What the controller made of one task.

    Attributes:
        value: the reply's object; None where a fallback has to stand in.
        origin: where the entry's text comes from; of a fallback, why.
        error: the call got no reply.
    """

    value: dict[str, Any] | None
    origin: Origin
    error: ModelCallError | None = None


def ask(
    chat: ChatBackend,
    requests: Iterable[tuple[str, ChatRequest]],
    schema: type[pydantic.BaseModel],
    images_left_out: int,
) -> Written:
    """Ask for a JSON object: the first request, repaired once, and after a failure for length the next one.

    Args:
        requests: each with what distinguishes it from the first, for ``origin.detail``; empty for the first. They are
            made only when they are needed.
    """
    faults: list[str] = []
    for remark, request in requests:
        try:
            value, kind = ask_json(chat, request, schema)
        except ModelCallError as error:
            faults.append(f"{remark}: {error}" if remark else str(error))
            if not _is_stated(error):
                return Written(None, Origin("fallback", "; ".join(faults), images_left_out), error)
            if error.kind not in _TOO_LONG:
                break
            continue
        said = [*faults, remark] if remark else faults
        if kind == "repaired":
            said = [*said, REPAIRED]
        return Written(value, Origin(kind, "; ".join(said) or None, images_left_out))
    return Written(None, Origin("fallback", "; ".join(faults), images_left_out))


def _is_stated(error: ModelCallError) -> bool:
    """Whether a failure is one that the protocol states a path for: a useless reply, or a prompt that is too long. An
    endpoint that returns no message has the kind ``malformed_reply`` too, but nobody replied."""
    return error.kind == "context_overflow" or isinstance(error, UnusableReplyError)


def write_all(
    controller: Controller,
    tasks: Sequence[_Task],
    write: Callable[[_Task], Written],
    name: Callable[[_Task], str],
    report: Report,
) -> list[Written]:
    """What the controller makes of each task, in order; so many at once as the role's ``concurrency`` says.

    Args:
        write: makes one task's call; runs in several threads.
        name: a task's id, for messages.

    Raises:
        TooManyErrors: more calls than allowed got no reply; raised after all others are finished, and so in the cache.
    """
    written = _in_order(tasks, write, controller.settings.concurrency, report)
    failures = [
        Failure(name(task), one.error.kind, one.error.detail)
        for task, one in zip(tasks, written, strict=True)
        if one.error is not None
    ]
    _log.info("%s: origins %s", controller.stage, dict(sorted(Counter(one.origin.kind for one in written).items())))
    check_failures(failures, controller.allow, controller.stage, FALLBACK_ENTRIES)
    return written


def _in_order(
    tasks: Sequence[_Task], write: Callable[[_Task], Written], concurrency: int, report: Report
) -> list[Written]:
    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="controller") as pool:
        futures = [pool.submit(write, task) for task in tasks]
        try:
            for done, finished in enumerate(as_completed(futures), start=1):
                finished.result()  # an unforeseen exception ends the job; finished calls are in the cache
                report(done, len(futures))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def object_of_texts(name: str, fields: Sequence[str], max_chars: int | None) -> type[pydantic.BaseModel]:
    """A schema class: an object of exactly these texts, each with a word in it. A blank one says nothing, nor do the
    dots of a prompt's example, which small models copy.

    Args:
        max_chars: None for any text; else a text is one line of at most so many characters that begins with a
            letter, which a grammar can enforce.
    """
    # Words are asked for by the check, not by the schema: grammars and endpoints differ in the patterns that they take.
    line = None if max_chars is None else rf'^[A-Za-z][^"\\\n\r\t]{{0,{max_chars - 1}}}$'
    text = Annotated[str, pydantic.Field(pattern=line), pydantic.AfterValidator(_with_words)]
    definitions: dict[str, Any] = dict.fromkeys(fields, (text, ...))
    return pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid"), **definitions)


def _with_words(text: str) -> str:
    if not _WORD.search(text):
        raise ValueError(f"must be a text with words, found {text.strip()[:20]!r}")
    return text
