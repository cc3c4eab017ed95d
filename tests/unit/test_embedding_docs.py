"""The configuration snippets for embedding models in docs/reproduce.md can be laid over the default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmev2.config import load_config

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("\n## Embedding models\n")[2]
SNIPPETS = {
    snippet["models"]["embedder"]["backend"]: snippet
    for snippet in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL))
}


def laid_over(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Nested values merged as Snakemake merges configuration files."""
    merged = dict(base)
    for key, value in overlay.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = laid_over(merged[key], value) if nested else value
    return merged


def test_each_way_has_a_snippet() -> None:
    assert list(SNIPPETS) == ["openai", "sentence_transformers", "llama_cpp"]


@pytest.mark.parametrize("base", ["config.yaml", "config/paper.yaml"])
@pytest.mark.parametrize("backend", SNIPPETS)
def test_a_snippet_is_a_valid_configuration(project: Path, backend: str, base: str) -> None:
    raw = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    raw = laid_over(raw, yaml.safe_load((project / base).read_text(encoding="utf-8")))
    raw["data"]["hub"] = None  # paper.yaml leaves the revision to its user
    embedder = load_config(laid_over(raw, SNIPPETS[backend])).models.embedder
    assert embedder.backend == backend
    assert (embedder.dimension, embedder.max_tokens, embedder.max_chars) == (4096, 4096, 40_000)
    paper = yaml.safe_load((project / "config" / "paper.yaml").read_text(encoding="utf-8"))
    assert embedder.query_instruction == paper["models"]["embedder"]["query_instruction"]
