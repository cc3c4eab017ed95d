"""Chat requests as a model's inputs: its chat template, its tokenizer, and its image processor.

Contents come from web pages: a text such as <|im_end|> in one must not end the message. So the template is filled with
stand-ins, only its own pieces are read with their control tokens, and the contents' tokens take the stand-ins' places.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from tokenizers import AddedToken

from lmev2.models.text import well_formed
from lmev2.models.thinking import opens_thinking
from lmev2.models.types import ChatRequest, ImagePart, Message, ModelSetupError

# Tokens that are added to every tokenizer, which may know no digits: a stand-in is the number of its content in binary
# digits between two marks. None of them is ever part of a model's input.
_MARK, _DIGITS = "<|lmev2-content|>", ("<|lmev2-0|>", "<|lmev2-1|>")
_PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


@dataclass(frozen=True)
class Prompt:
    """A request as inputs of the model.

    Attributes:
        ids: tokens.
        types: other inputs with one number a token, by name.
        pictures: inputs made of images, by name: PyTorch tensors.
        opens_thinking: the prompt ends inside a thinking block.
    """

    ids: list[int]
    types: dict[str, list[int]] = field(default_factory=dict)
    pictures: dict[str, Any] = field(default_factory=dict)
    opens_thinking: bool = False

    def shape(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """What two prompts must share to stand in one batch: names and shapes of what the images became."""
        return tuple(sorted((name, tuple(tensor.shape[1:])) for name, tensor in self.pictures.items()))


class PromptMaker:
    """Makes prompts and counts tokens; thread-safe.

    Args:
        tokenizer: of the model.
        processor: of a model with images; it holds the same tokenizer.
        name: of the model, for messages.
    """

    def __init__(self, tokenizer: Any, processor: Any | None, name: str):
        self.tokenizer = tokenizer
        self.processor = processor
        self.name = name
        self._lock = threading.Lock()  # tokenizers change while they encode
        self._image_tokens: dict[tuple[int, int], int] = {}
        template = getattr(processor, "chat_template", None) or tokenizer.chat_template
        if not template:
            raise ModelSetupError(f"{name!r} has no chat template; choose a model that is tuned for chat")
        added = (_MARK, *_DIGITS)
        tokenizer.add_tokens(
            [AddedToken(token, special=True, normalized=False) for token in added], special_tokens=True
        )
        self._mark, *digits = (int(tokenizer.convert_tokens_to_ids(token)) for token in added)
        self._digits = {token: str(digit) for digit, token in enumerate(digits)}

    def count(self, text: str) -> int:
        """Number of tokens of a text, without special tokens; marks of special tokens inside it are plain text."""
        with self._lock:
            return len(self._plain(text))

    def count_image(self, path: Path) -> int:
        """Number of tokens that an image adds to a message, delimiters included; 0 for a text-only model."""
        if self.processor is None:
            return 0
        with Image.open(path) as image:
            size = image.size
        if size not in self._image_tokens:  # processors go by an image's size
            with_image = self._made(
                [{"role": "user", "content": [{"type": "image"}]}], [], [Image.new("RGB", size)], {}
            )
            without = self._made([{"role": "user", "content": []}], [], [], {})
            self._image_tokens[size] = len(with_image.ids) - len(without.ids)
        return self._image_tokens[size]

    def text(self, ids: list[int]) -> str:
        """The text of a reply's tokens, without marks of special tokens."""
        with self._lock:
            return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def make(self, request: ChatRequest) -> Prompt:
        """The prompt of a request.

        Raises:
            ModelSetupError: the template refuses the messages, or does not show every content once.
        """
        contents: list[str] = []
        images: list[Any] = []
        messages = [self._message(message, contents, images) for message in request.messages]
        switches: dict[str, Any] = {} if request.thinking is None else {"enable_thinking": request.thinking}
        if request.reasoning_effort is not None:
            switches["reasoning_effort"] = request.reasoning_effort
        return self._made(messages, contents, images, switches)

    def _message(self, message: Message, contents: list[str], images: list[Any]) -> dict[str, Any]:
        if self.processor is None:
            text = "".join(part.text for part in message.parts if not isinstance(part, ImagePart))
            contents.append(text)
            return {"role": message.role, "content": _numbered(len(contents) - 1) if text else ""}
        parts: list[dict[str, str]] = []
        for part in message.parts:
            if isinstance(part, ImagePart):
                with Image.open(part.path) as image:
                    images.append(image.convert("RGB"))
                parts.append({"type": "image"})
            elif part.text:
                contents.append(part.text)
                parts.append({"type": "text", "text": _numbered(len(contents) - 1)})
        return {"role": message.role, "content": parts}

    def _made(
        self, messages: list[dict[str, Any]], contents: Sequence[str], images: list[Any], switches: dict[str, Any]
    ) -> Prompt:
        writer = self.tokenizer if self.processor is None else self.processor
        try:
            text = str(writer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **switches))
        except Exception as error:  # templates raise what they please
            roles = ", ".join(message["role"] for message in messages)
            raise ModelSetupError(f"the chat template of {self.name!r} refuses messages of {roles}: {error}") from error
        with self._lock:
            if images:
                assert self.processor is not None
                made = dict(self.processor(text=[text], images=images, add_special_tokens=False, return_tensors="pt"))
                ids = made["input_ids"][0].tolist()
                types = {name: made.pop(name)[0].tolist() for name in _PER_TOKEN if name in made}
                types = {name: row for name, row in types.items() if name not in _PER_TOKEN[:2]}
            else:
                ids, types, made = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], {}, {}
            ids, types, shown = self._filled(ids, types, [self._plain(content) for content in contents])
        wanted = [number for number, content in enumerate(contents) if content]
        if sorted(shown) != wanted:
            raise ModelSetupError(
                f"the chat template of {self.name!r} does not show every content once (of contents {wanted} it shows "
                f"{shown}); choose a model whose template does"
            )
        return Prompt(ids, types, made, opens_thinking(text))

    def _plain(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(
            well_formed(text), add_special_tokens=False, split_special_tokens=True, verbose=False
        )["input_ids"]
        return ids

    def _filled(
        self, ids: list[int], types: dict[str, list[int]], contents: Sequence[list[int]]
    ) -> tuple[list[int], dict[str, list[int]], list[int]]:
        """Tokens with the contents in the places of their stand-ins, whose types are 0 as those of all text, and the
        numbers of these contents."""
        filled: list[int] = []
        filled_types: dict[str, list[int]] = {name: [] for name in types}
        seen: list[int] = []
        position = 0
        while position < len(ids):
            if ids[position] == self._mark:
                end = ids.index(self._mark, position + 1)
                # tokens between that are no digits are spaces that the tokenizer puts before a piece
                number = int("".join(self._digits.get(token, "") for token in ids[position + 1 : end]), base=2)
                seen.append(number)
                filled += contents[number]
                for row in filled_types.values():
                    row += [0] * len(contents[number])
                position = end + 1
                continue
            filled.append(ids[position])
            for name, row in filled_types.items():
                row.append(types[name][position])
            position += 1
        return filled, filled_types, seen


def _numbered(number: int) -> str:
    return _MARK + "".join(_DIGITS[int(digit)] for digit in f"{number:b}") + _MARK
