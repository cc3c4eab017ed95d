"""Where a transformers model comes from, what identifies it, and how it is loaded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lmev2.models.cache import CallCache
from lmev2.models.gguf import let_threads_sleep, remembered_sha256, resolve_file
from lmev2.models.model_folder import CHAT_TEMPLATES, find_folder, folder_sha256, package_version
from lmev2.models.settings import ChatSettings
from lmev2.models.transformers_messages import PromptMaker
from lmev2.models.types import ModelSetupError

BACKEND = "transformers"
DEFAULT_DTYPE = "bfloat16"
_PACKAGES = ("transformers", "torch")
_IMAGE_PACKAGES = ("pillow", "torchvision")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class LoadedModel:
    """A model with the tokens that end its replies, and the one to pad with."""

    model: Any
    ends: frozenset[int]
    pad: int


class ModelSource:
    """A model of the hub, in a folder, or in a GGUF file, as a role's settings name it."""

    def __init__(self, settings: ChatSettings, cache: CallCache):
        self.settings = settings
        self.name = settings.served_name or settings.model
        self.dtype = settings.dtype or DEFAULT_DTYPE
        self._cache = cache

    def identity(self) -> dict[str, Any]:
        """The hash of the file or of the folder's files, or hub id and commit; number type and versions of libraries.

        Raises:
            ModelSetupError: a package, the file or the folder is missing, or the hub cannot be reached.
        """
        packages = [*_PACKAGES, *(["gguf"] if self.settings.file is not None else [])]
        facts: dict[str, Any] = {"backend": BACKEND, "dtype": self.dtype, "images": self.settings.images}
        versions = {name: package_version(name, BACKEND) for name in packages}
        if self.settings.images:
            versions |= {name: package_version(name, BACKEND) for name in _IMAGE_PACKAGES}
        if self.settings.file is not None:
            facts["file_sha256"] = remembered_sha256(resolve_file(self.settings.file), self._cache)
        elif (folder := self._folder) is not None:
            facts["folder_sha256"] = folder_sha256(folder, self._cache, CHAT_TEMPLATES)
        else:
            facts |= {"source": self.name, "commit": self._commit}
        return facts | {"versions": versions}

    def prompt_maker(self) -> PromptMaker:
        """The model's tokenizer, or its processor, with its chat template.

        Raises:
            ModelSetupError: they cannot be had.
        """
        if not self.settings.images:
            return PromptMaker(self._loaded("tokenizer", "AutoTokenizer"), None, self.settings.model)
        processor = self._loaded("processor", "AutoProcessor")
        if not hasattr(processor, "image_processor"):
            raise ModelSetupError(f"{self.name!r} has no image processor; set `images: false`")
        return PromptMaker(processor.tokenizer, processor, self.settings.model)

    def load(self, threads: int, tokenizer: Any) -> LoadedModel:
        """The model, ready to generate.

        Raises:
            ModelSetupError: it cannot be had, or does not fit the settings.
        """
        import torch
        from transformers import GenerationConfig

        torch.set_num_threads(threads)
        device = self.settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        kind = "AutoModelForImageTextToText" if self.settings.images else "AutoModelForCausalLM"
        options = {"dtype": getattr(torch, self.dtype), "device_map": device}
        model = self._loaded(f"model (device {device})", kind, **options).eval()
        self._check_window(model)
        own = model.generation_config
        ends = _token_ids(own.eos_token_id) | _token_ids(tokenizer.eos_token_id)
        if not ends:
            raise ModelSetupError(f"{self.name!r} names no token that ends a reply (eos_token_id)")
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(ends)
        # The model's own sampling settings and penalties would be settings that nobody asked for.
        model.generation_config = GenerationConfig(
            bos_token_id=own.bos_token_id, eos_token_id=sorted(ends), pad_token_id=pad, use_cache=True
        )
        return LoadedModel(model, ends, pad)

    @cached_property
    def _folder(self) -> Path | None:
        return find_folder(self.name, "a transformers model")

    @cached_property
    def _commit(self) -> str:
        """The commit that the revision means: by the hub's local copy if it is there, else by the hub."""
        revision = self.settings.revision or "main"
        if _COMMIT.fullmatch(revision):
            return revision
        package_version("transformers", BACKEND)
        import huggingface_hub

        found = huggingface_hub.try_to_load_from_cache(self.name, "config.json", revision=revision)
        try:
            path = (
                found
                if isinstance(found, str)
                else huggingface_hub.hf_hub_download(self.name, "config.json", revision=revision)
            )
        except Exception as error:
            raise ModelSetupError(self._message("configuration", error)) from error
        return Path(path).parent.name  # …/snapshots/<commit>/config.json

    def _loaded(self, what: str, kind: str, **options: Any) -> Any:
        for name in _PACKAGES:
            package_version(name, BACKEND)
        let_threads_sleep()
        import transformers

        transformers.utils.logging.disable_progress_bar()
        try:
            if self.settings.file is not None:
                package_version("gguf", BACKEND)
                path = resolve_file(self.settings.file)
                return getattr(transformers, kind).from_pretrained(str(path.parent), gguf_file=path.name, **options)
            if self._folder is not None:
                return getattr(transformers, kind).from_pretrained(str(self._folder), **options)
            return getattr(transformers, kind).from_pretrained(self.name, revision=self._commit, **options)
        except ModelSetupError:
            raise
        except Exception as error:  # the library raises whatever the hub, the files or the device make it meet
            raise ModelSetupError(self._message(what, error)) from error

    def _message(self, what: str, error: Exception) -> str:
        source = self.settings.file or f"{self.name} (revision {self.settings.revision or 'main'})"
        return (
            f"transformers cannot load the {what} of {source}: {type(error).__name__}: {error}. Without network, set "
            "`served_name` to a folder that holds the model"
        )

    def _check_window(self, model: Any) -> None:
        trained = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        if trained is not None and self.settings.context_length > trained:
            raise ModelSetupError(
                f"{self.name!r} was made for a window of {trained} tokens; `context_length` is "
                f"{self.settings.context_length}"
            )


def _token_ids(value: int | list[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset(value if isinstance(value, list) else [value])
