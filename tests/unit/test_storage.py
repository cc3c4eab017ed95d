"""Storage that fails under the library, and runs whose process is gone: what is noticed, said and kept."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bwrap import needs_bwrap

from lmev2 import rows
from lmev2.data.errors import DataError
from lmev2.data.store import StateStore
from lmev2.data.writer import StateWriter
from lmev2.files import StorageError, replacing
from lmev2.index import PoolIndex, PoolIndexError, build_index
from lmev2.models import cache as cache_module
from lmev2.models import call_lock
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import ScriptedChat
from lmev2.models.types import ChatRequest, Message, Sampling, TextPart
from lmev2.rows import EMBEDDING, POOL_ENTRY, SCORE, RowError, check_readable, read_rows, write_rows
from lmev2.run_lock import stale_lock
from lmev2.storage import from_the_future, storage_problems
from lmev2.tables.opening import DatabaseError, open_database

SOURCE = Path(rows.__file__).parent
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can watch a process")


def wait(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(number: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# A run: it names itself, and starts a job through a shell, as Snakemake does.
RUN = """
import os, subprocess, sys, time
from lmev2.run_lock import name_run
name_run()
job = "{python} -c 'from lmev2.run_lock import end_with_run, forget_run; import os, time, pathlib\\n{before}\\n" \
      "end_with_run(); pathlib.Path(\\"pid\\").write_text(str(os.getpid()))\\n" \
      "try: time.sleep(300)\\nfinally: pathlib.Path(\\"tidied\\").touch()'; true"
subprocess.run(["bash", "-c", job])
"""


@linux
@pytest.mark.parametrize(
    ("before", "ends"),
    [
        ("", True),
        ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)", True),  # as in a shell's background
        ("forget_run()", False),
    ],
)
def test_a_job_ends_with_its_run_and_tidies_up(tmp_path: Path, before: str, ends: bool) -> None:
    code = RUN.replace("{python}", sys.executable).replace("{before}", before)
    run = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    pid = tmp_path / "pid"
    assert wait(lambda: pid.exists() and pid.read_text() != "", 60)
    job = int(pid.read_text())
    try:
        time.sleep(0.3)
        assert alive(job), "it ended while its run lived"
        run.kill()
        run.wait()
        assert wait(lambda: not alive(job), 20 if ends else 1.5) == ends
        assert (tmp_path / "tidied").exists() == ends
    finally:
        run.kill()
        if alive(job):
            os.kill(job, signal.SIGKILL)


def test_a_lock_is_stale_once_no_process_holds_it(tmp_path: Path) -> None:
    hold = "import sys, time; from pathlib import Path; from lmev2.run_lock import hold\n"
    hold += "assert hold(Path.cwd()); print('held', flush=True); time.sleep(300)"
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", hold], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stdout.readline() == "held\n"
        (locks / "0.output.lock").write_text("results/table2.csv\n")
        assert stale_lock(tmp_path) is None
        run.kill()
    said = stale_lock(tmp_path)
    assert said is not None and "`snakemake --unlock`" in said and str(locks) in said
    shutil.rmtree(locks)
    assert stale_lock(tmp_path) is None


def request(number: int) -> ChatRequest:
    return ChatRequest((Message("user", (TextPart(f"question {number}"),)),), Sampling(max_tokens=10), "reader")


def test_no_call_is_made_once_a_reply_could_not_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    write = cache_module.write_atomically

    def fill(path: Path, content: bytes) -> None:
        nonlocal written
        if written == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += 1
        write(path, content)

    monkeypatch.setattr(cache_module, "write_atomically", fill)
    chat = ScriptedChat(lambda request: "reply")
    cached = CachedChat(chat, CallCache(tmp_path))
    faults = []
    for number in range(10):
        try:
            cached.complete(request(number))
        except StorageError as error:
            faults.append(str(error))
    assert len(chat.calls) == 4, "calls went on whose replies were lost"
    assert len(faults) == 7 and len(set(faults)) == 1
    assert str(tmp_path) in faults[0] and "No space left" in faults[0]
    assert "Make room" in faults[0] and "finished calls are kept" in faults[0]
    assert cached.complete(request(2)).replayed  # what is there is read
    monkeypatch.undo()
    again = CachedChat(chat, CallCache(tmp_path))
    assert [again.complete(request(number)).replayed for number in range(4)] == [True] * 3 + [False]


SMALL_DISK = """
import sys
from pathlib import Path
from lmev2.files import StorageError
from lmev2.models.cache import CallCache
from lmev2.rows import HAYSTACK, write_rows
folder = Path(sys.argv[1])
cache, kept = CallCache(folder / "cache"), 0
try:
    for number in range(100):
        cache.put_json("x", {"n": number}, {"text": str(number) * 20000})
        kept += 1
except StorageError as error:
    print(error)
assert 0 < kept < 100
fresh = CallCache(folder / "cache")
assert [fresh.get_json("x", {"n": n}) is not None for n in range(100)] == [n < kept for n in range(100)]
rows = ({"question_id": f"{n}", "tier": "small", "trajectory_ids": [f"{n * 7919 ** k}" for k in range(60)]}
        for n in range(5000))
try:
    write_rows(folder / "rows.parquet", HAYSTACK, rows)
except StorageError as error:
    print(error)
assert not [path for path in folder.rglob("*") if "tmp" in path.name or path.name == "rows.parquet"]
"""


def sandboxed(options: list[str], code: str, *arguments: str) -> str:
    """What a program prints that runs with other mounts."""
    command = ["bwrap", "--dev-bind", "/", "/", *options, "--", sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return done.stdout


@needs_bwrap
def test_a_full_disk_is_named_and_leaves_whole_files_only(tmp_path: Path) -> None:
    said = sandboxed(["--size", "400000", "--tmpfs", str(tmp_path)], SMALL_DISK, str(tmp_path)).splitlines()
    assert len(said) == 2, said
    assert f"call cache {tmp_path / 'cache'} (No space left on device)" in said[0] and "Make room" in said[0]
    assert f"cannot write {tmp_path / 'rows.parquet'} (No space left on device)" in said[1]
    assert "make room" in said[1] and "run again" in said[1]


READ_ONLY = """
import logging, sys
from pathlib import Path
from lmev2.files import StorageError
from lmev2.models.cache import CallCache
from lmev2.storage import storage_problems
logging.basicConfig(format="%(message)s")
folder = Path(sys.argv[1])
cache = CallCache(folder)
assert cache.get_json("x", {"n": 1}) == {"text": "kept"}
assert cache.get_json("x", {"n": 2}) is None  # damaged
try:
    cache.put_json("x", {"n": 2}, {"text": "new"})
except StorageError as error:
    print(error)
print(*storage_problems({"cache": folder}))
"""


@needs_bwrap
def test_a_read_only_cache_replays_and_says_why_nothing_more_is_kept(tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    for number in (1, 2):
        cache.put_json("x", {"n": number}, {"text": "kept"})
    path = cache.path_of("x", {"n": 2})
    path.write_bytes(path.read_bytes()[:50])
    said = sandboxed(["--ro-bind", str(tmp_path), str(tmp_path)], READ_ONLY, str(tmp_path))
    assert f"{path.name} is unusable" in said and "cannot be moved aside" in said
    assert "(Read-only file system)" in said and "set `cache` to another folder" in said
    assert f"cache: the folder {tmp_path} cannot be written to" in said
    assert path.exists()


def test_a_disk_without_room_is_told_of_before_any_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage_problems({"results": tmp_path / "new", "cache": tmp_path}) == []
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 10**9, 3_000_000))
    (problem,) = storage_problems({"results": tmp_path})
    assert problem.startswith(f"results: the disk of {tmp_path} has 3 MB left") and "make room" in problem
    (tmp_path / "file").touch()
    (problem,) = storage_problems({"cache": tmp_path / "file" / "below"})
    assert "cache: cannot use the folder" in problem and "set `cache`" in problem


WORKER = """
import sys
from pathlib import Path
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import ScriptedChat
from lmev2.models.types import ChatRequest, Message, Sampling, TextPart
folder, own = Path(sys.argv[1]), int(sys.argv[2])
def paid(request):
    import time
    with open(folder / "paid.txt", "a") as file:
        file.write(request.messages[0].parts[0].text + "\\n")
    time.sleep(0.05)
    return "reply to " + request.messages[0].parts[0].text
cached = CachedChat(ScriptedChat(paid), CallCache(folder / "cache"))
def request(number):
    message = Message("user", (TextPart(f"question {number}"),))
    return ChatRequest((message,), Sampling(max_tokens=10), role=f"process {own}")
for number in [*range(10), 100 + own, 200 + own]:
    assert cached.complete(request(number)).text == f"reply to question {number}"
"""


def test_eight_processes_pay_for_each_call_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    workers = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE) for number in range(8)]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    paid = (tmp_path / "paid.txt").read_text().splitlines()
    assert sorted(paid) == sorted(f"question {n}" for n in [*range(10), *range(100, 108), *range(200, 208)])
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(files) == len(paid) and all(json.loads(path.read_bytes())["value"] for path in files)


def test_a_clock_that_was_set_back_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "contexts" / "a").mkdir(parents=True)
    for name in ("table2.csv", "contexts/a/0of1.parquet"):
        (tmp_path / name).touch()
    assert from_the_future(tmp_path) is None and from_the_future(tmp_path / "none") is None
    said = from_the_future(tmp_path, time.time() - 5 * 3600)
    assert said is not None and said.startswith("2 files in") and "by 5.0 hours" in said and "--forceall" in said


def test_no_time_is_taken_with_a_clock_that_can_be_set() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("time.time(", "datetime.now(", "time_ns("))
    }
    # The times of files, and dates in headers of servers, are told by no other.
    assert users == {"storage.py", "models/retry.py"}


CONTRACTS: dict[str, pa.Schema] = {
    name: value for name, value in vars(rows).items() if isinstance(value, pa.Schema) and not name.startswith("_")
}


def value_of(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return [value_of(kind.value_type)]
    if pa.types.is_struct(kind):
        return {kind.field(number).name: value_of(kind.field(number).type) for number in range(kind.num_fields)}
    if pa.types.is_boolean(kind):
        return True
    return "x" if pa.types.is_string(kind) else 1


def row_of(schema: pa.Schema, **more: Any) -> dict[str, Any]:
    return {field.name: value_of(field.type) for field in schema} | more


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def no_magic(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4] + b"BAD!")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def other_contract(path: Path) -> None:
    pq.write_table(pa.table({"something": ["else"]}), path)


DAMAGES = (cut, no_magic, emptied, other_contract)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", CONTRACTS)
def test_a_damaged_file_of_every_stage_is_named_with_what_to_do(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "0of1.parquet"
    write_rows(path, CONTRACTS[name], [row_of(CONTRACTS[name])])
    damage(path)
    for read in (lambda: list(read_rows(path, CONTRACTS[name])), lambda: check_readable(path, CONTRACTS[name])):
        with pytest.raises(RowError, match=r"0of1\.parquet: .*; delete it and run again"):
            read()


def make_store(folder: Path) -> tuple[Path, Path]:
    states, runs = folder / "states.parquet", folder / "trajectories.parquet"
    write_rows(runs, rows.TRAJECTORY, [row_of(rows.TRAJECTORY, trajectory_id=name, state_count=40) for name in "ab"])
    with replacing(states) as temporary, StateWriter(temporary) as writer:
        for name in "ab":
            trees = ["".join(map(chr, np.random.default_rng(n).integers(97, 122, 2000))) for n in range(40)]
            kept = [row_of(rows.STATE, trajectory_id=name, state_index=n, tree=trees[n]) for n in range(40)]
            writer.write(kept)
    return states, runs


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_states_are_named_with_what_to_do(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    states, runs = make_store(tmp_path)
    damage(states)
    with pytest.raises(DataError, match=r"states\.parquet: .*; delete it and run again"):
        StateStore(states, runs)


def test_states_that_are_damaged_inside_are_named_when_they_are_read(tmp_path: Path) -> None:
    states, runs = make_store(tmp_path)
    facts = pq.read_metadata(states).row_group(1)
    column = next(facts.column(n) for n in range(facts.num_columns) if facts.column(n).path_in_schema == "tree")
    content = bytearray(states.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    states.write_bytes(content)
    with StateStore(states, runs) as store:
        assert len(store.trajectory("a").states) == 40
        with pytest.raises(RowError, match=r"(?s)states\.parquet: not a readable .*; delete it and run again"):
            store.trajectory("b")


def make_index(folder: Path, pool: str, seed: int) -> tuple[Path, Path]:
    """An index of 20 entries: its folder and manifest."""
    entries, vectors = folder / f"{pool}.parquet", folder / f"{pool}_vectors.parquet"
    ids = [{"entry_id": f"{pool}/{number}", "trajectory_id": f"t{number}"} for number in range(20)]
    rng = np.random.default_rng(seed)
    write_rows(entries, POOL_ENTRY, [row_of(POOL_ENTRY, payload="{}", pool=pool, **one) for one in ids])
    write_rows(vectors, EMBEDDING, [row_of(EMBEDDING, **one) | {"vector": rng.random(8).tolist()} for one in ids])
    index, manifest = folder / f"{pool}.lance", folder / f"{pool}.json"
    build_index(pool, [entries], [vectors], index, manifest, 8)
    return index, manifest


@pytest.mark.parametrize("part", ["data/*", "_versions/*", "_indices/*/*"])
@pytest.mark.parametrize("how", ["gone", "cut"])
def test_an_index_that_lost_a_part_is_named_with_what_to_do(tmp_path: Path, part: str, how: str) -> None:
    index, manifest = make_index(tmp_path, "event", 1)
    files = [path for path in (index / "entries.lance").glob(part) if path.is_file()]
    assert files
    for path in files:
        path.unlink() if how == "gone" else cut(path)
    with pytest.raises(PoolIndexError, match=r"event\.lance .*delete it and .*event\.json, and run again"):
        opened = PoolIndex(index, manifest)
        vector = np.ones(8, np.float32)
        opened.search(vector, ["t1"], 3)
        opened.text_candidates("x", vector, ["t1"], 3)


def test_the_index_of_another_pool_is_not_searched(tmp_path: Path) -> None:
    index, manifest = make_index(tmp_path, "hint_note", 1)
    other, _ = make_index(tmp_path, "procedure_note", 2)  # with as many entries
    PoolIndex(index, manifest)
    shutil.rmtree(index)
    other.rename(index)
    with pytest.raises(PoolIndexError, match=r"hint_note\.lance is not the one of its manifest; delete it and"):
        PoolIndex(index, manifest)


@pytest.mark.parametrize("damage", [cut, no_magic])
def test_a_damaged_file_of_vectors_is_named_when_it_is_indexed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    make_index(tmp_path, "event", 1)
    damage(tmp_path / "event_vectors.parquet")
    with pytest.raises(RowError, match=r"event_vectors\.parquet: not a readable .*delete it and run again"):
        files = [tmp_path / "event.parquet"], [tmp_path / "event_vectors.parquet"]
        build_index("event", *files, tmp_path / "event.lance", tmp_path / "event.json", 8)


@pytest.mark.parametrize("damage", ["cut", "garbage", "gone"])
def test_a_damaged_database_is_named_with_the_rule_that_writes_it(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "metrics.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE scores AS SELECT range AS n, md5(range::VARCHAR) AS text FROM range(200000)")
    change: Mapping[str, Callable[[Path], object]] = {
        "cut": cut,
        "garbage": lambda path: path.write_bytes(b"nothing" * 9999),
        "gone": Path.unlink,
    }
    change[damage](path)
    message = r"metrics\.duckdb: not a readable database .*delete it and run again: the rule collect_scores"
    with pytest.raises(DatabaseError, match=message), open_database(path) as database:
        database.execute("SELECT max(text) FROM scores").fetchall()


def test_a_query_that_is_wrong_is_not_called_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "metrics.duckdb"
    duckdb.connect(str(path)).close()
    with pytest.raises(duckdb.CatalogException), open_database(path) as database:
        database.execute("SELECT * FROM nothing")


def test_a_score_file_in_place_of_a_context_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0of1.parquet"
    write_rows(path, SCORE, [row_of(SCORE)])
    with pytest.raises(RowError, match=r"expected columns .*delete it and run again"):
        check_readable(path, rows.CONTEXT)


def test_equal_calls_of_threads_stop_together_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache_module, "write_atomically", full)
    chat = ScriptedChat(lambda request: "reply")
    cached = CachedChat(chat, CallCache(tmp_path))

    def ask(number: int) -> str:
        with pytest.raises(StorageError) as raised:
            cached.complete(request(0))
        return str(raised.value)

    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(ask, range(6)))
    assert len(chat.calls) == 1 and len(set(said)) == 1


def locks_of(folder: Path) -> list[Path]:
    return list(folder.rglob("*.lock"))


def open_files(folder: Path) -> int:
    """How many files below a folder this process has open."""
    files = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum(file.is_relative_to(folder) for file in files)


@linux
def test_a_lock_that_cannot_be_removed_hides_nothing_and_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def denied(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(cache_module, "write_atomically", full)
    monkeypatch.setattr(Path, "unlink", denied)
    cached = CachedChat(ScriptedChat(lambda request: "reply"), CallCache(tmp_path))
    with pytest.raises(StorageError, match=r"cannot write to the call cache .*No space left"):
        cached.complete(request(0))
    assert len(locks_of(tmp_path)) == 1 and open_files(tmp_path) == 0
    monkeypatch.undo()
    again = CachedChat(ScriptedChat(lambda request: "reply"), CallCache(tmp_path))
    assert again.complete(request(0)).text == "reply" and locks_of(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("where", ["folder", "file"])
def test_no_call_is_made_whose_lock_has_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, where: str
) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise OSError(number, os.strerror(number))

    chat = ScriptedChat(lambda request: "reply")
    cached = CachedChat(chat, CallCache(tmp_path))
    kept = cached.complete(request(0))
    with monkeypatch.context() as patched:
        if where == "folder":
            patched.setattr(Path, "mkdir", fail)
        else:
            patched.setattr(call_lock.os, "open", fail)
        said = []
        for question in (1, 2):
            with pytest.raises(StorageError) as raised:
                cached.complete(request(question))
            said.append(str(raised.value))
    assert said[0] == said[1] and str(tmp_path) in said[0] and os.strerror(number) in said[0]
    assert len(chat.calls) == 1
    assert cached.complete(request(0)).text == kept.text


def test_a_file_in_place_of_a_folder_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "chat").touch()
    chat = ScriptedChat(lambda request: "reply")
    with pytest.raises(StorageError, match="See that the folder can be written to"):
        CachedChat(chat, CallCache(tmp_path)).complete(request(0))
    assert chat.calls == []


NO_CALL = """
import sys
from lmev2.files import StorageError
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedChat
from lmev2.models.scripted import ScriptedChat
from lmev2.models.types import ChatRequest, Message, Sampling, TextPart
chat = ScriptedChat(lambda request: "reply")
try:
    CachedChat(chat, CallCache(sys.argv[1])).complete(
        ChatRequest((Message("user", (TextPart("q"),)),), Sampling(max_tokens=10), "reader"))
except StorageError as error:
    print(error)
print(len(chat.calls))
"""


@needs_bwrap
def test_no_call_is_made_beside_a_read_only_cache(tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    for _ in range(2):  # the folder of the call's hash is absent, then there
        said = sandboxed(["--ro-bind", str(tmp_path), str(tmp_path)], NO_CALL, str(tmp_path)).splitlines()
        assert "(Read-only file system)" in said[0] and said[1] == "0"
        identity = ScriptedChat(lambda request: "reply").identity()
        message = Message("user", (TextPart("q"),))
        asked = ChatRequest((message,), Sampling(max_tokens=10), "reader")
        cache.path_of("chat", cache_module.request_key(identity, asked)).parent.mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOLCK, errno.ENOTSUP])
def test_a_call_goes_on_without_a_lock_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise OSError(number, os.strerror(number))

    cached = CachedChat(ScriptedChat(lambda request: "reply"), CallCache(tmp_path))
    monkeypatch.setattr(call_lock.os, "open", fail)
    assert not cached.complete(request(0)).replayed
    assert cached.complete(request(0)).replayed


def test_a_lock_of_another_user_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(path: Path, *_: Any) -> int:
        open(path, "wb").close()
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    cached = CachedChat(ScriptedChat(lambda request: "reply"), CallCache(tmp_path))
    monkeypatch.setattr(call_lock.os, "open", theirs)
    assert cached.complete(request(0)).text == "reply" and len(locks_of(tmp_path)) == 1


HOLDER = """
import sys, time
from pathlib import Path
from lmev2.models.call_lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(300)
"""


@linux
def test_a_stopped_process_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chat = ScriptedChat(lambda request: "reply")
    cache = CallCache(tmp_path)
    path = cache.path_of("chat", cache_module.request_key(chat.identity(), request(0)))
    lock = path.with_name(f".{path.stem}.lock")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(call_lock, "_WARN_S", 0.2)
        monkeypatch.setattr(call_lock, "_WAIT_S", 1.2)
        started = time.monotonic()
        assert CachedChat(chat, cache).complete(request(0)).text == "reply"
        assert 1.2 <= time.monotonic() - started < 30
        first, last = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
        assert str(lock) in first and "Waiting 1 s at most" in first
        assert str(lock) in last and "at worst twice" in last
        assert lock.exists(), "another's lock was removed"
        holder.kill()
    monkeypatch.undo()
    with call_lock.locked(lock):
        assert lock.exists()
    assert not lock.exists()


@linux
def test_nobody_gives_up_before_the_work_may_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_lock, "_WAIT_S", 0.1)
    lock = tmp_path / ".a.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        killing = threading.Timer(1.0, holder.kill)
        killing.start()
        with call_lock.locked(lock, 60.0):
            assert holder.wait(5) == -signal.SIGKILL
            assert open_files(tmp_path) == 1


PAYING = """
import sys, time
from pathlib import Path
import numpy as np
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedEmbedder
folder = Path(sys.argv[1])
class Embedder:
    model, dimension = "m", 2
    def identity(self):
        return {"model": "m"}
    def embed_query(self, text):
        with open(folder / "paid.txt", "a") as file:
            file.write(text + "\\n")
        time.sleep(0.5)
        return np.ones(2, np.float32)
embedder = CachedEmbedder(Embedder(), CallCache(folder / "cache"), 8)
print("ready", flush=True)
sys.stdin.readline()
for text in ("a", "b"):
    assert embedder.embed_query(text).tolist() == [1.0, 1.0]
"""


def test_processes_embed_a_query_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PAYING, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    assert sorted((tmp_path / "paid.txt").read_text().split()) == ["a", "b"]
    assert locks_of(tmp_path) == []
