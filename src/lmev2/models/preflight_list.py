"""What a server's list of models says: names, and the length of a model's window."""

from __future__ import annotations

from typing import Any, Final

from lmev2.models.openai_endpoint import Look

# Where servers write the length of the window that they were started with.
_LENGTHS: Final = ("max_model_len", "context_length", "context_window")


def names(listed: Look) -> list[str]:
    """The names of the list's models; none where there is no list."""
    return [one["id"] for one in _models(listed) if isinstance(one.get("id"), str)]


def entry(listed: Look, name: str) -> dict[str, Any] | None:
    """What the list says of a model, whose name may stand there with a folder or Ollama's default tag."""
    known = (name, f"models/{name}", f"{name}:latest")
    return next((one for one in _models(listed) if one.get("id") in known), None)


def may_serve_others(listed: Look) -> bool:
    """Whether a server may know models that its list does not name: one page of several, or a router's choice of names.

    A list of one whole page with one model is what a server with one model has.
    """
    return len(names(listed)) > 1 or bool((listed.body or {}).get("has_more"))


def window(said: dict[str, Any]) -> int | None:
    """The window in tokens, by a model's entry."""
    return next((int(said[name]) for name in _LENGTHS if _is_count(said.get(name))), None)


def trained_window(said: dict[str, Any]) -> int | None:
    """The window in tokens that the model was trained with, by its entry in llama-server's list."""
    meta = said.get("meta")
    return int(meta["n_ctx_train"]) if isinstance(meta, dict) and _is_count(meta.get("n_ctx_train")) else None


def slot_window(props: Look) -> int | None:
    """The window in tokens that each slot of a llama-server has, by its page ``/props``."""
    defaults = (props.body or {}).get("default_generation_settings")
    return int(defaults["n_ctx"]) if isinstance(defaults, dict) and _is_count(defaults.get("n_ctx")) else None


def _models(listed: Look) -> list[dict[str, Any]]:
    data = (listed.body or {}).get("data")
    return [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
