"""What a run keeps to itself: gold answers, scorers, evidence and other questions from memories and models, keys from
everything on disk.

One pipeline over a made-up data root full of marks. Each endpoint has a key of its own, and refuses one request by
telling all that it was sent; the rows that this costs are let through, so that the refusals are written down. Then gold
answers, scorers and evidence labels are exchanged: nothing but the judge may see a difference.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import lancedb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bwrap import needs_bwrap
from chatserver import Answer, Call, ChatServer, bags_of_words, completion, make_tokenizer
from llm_script import subject_of, value_of
from pipeline import Pipeline, make_pipeline, merged, overlay_for
from unit.dataroot import DataRoot, make_id

pytestmark = needs_bwrap

QUESTIONS, DIMENSION, ALLOWED = 14, 32, 3
ROLES = ("reader", "judge", "controller", "embedder", "agent")
KEYS = {role: f"sk-{role}/key-mark-4f1d9c7b" for role in ROLES}
USER, PASSWORD = "user-mark-9a31", "pass mark/7b02"
SECRETS = (*KEYS.values(), USER, PASSWORD)
METHODS = ("dump", "agentrunbook_r", "agentrunbook_c")
SEEN_AGAIN = ("dump", "agentrunbook_c")
SEPARATORS, OTHER_SEPARATORS = ",;¤¶", ",;¶¤"
SPEC_MARKS = ("¤¶", "¶¤", "eval_function", "require_non_empty", "norm_phrase", "mc_choice", "_checker")
TYPE_MARKS = ("static-environment", "dynamic-environment", "procedure-abs", "errors-gotchas", "question_type")
EVIDENCE_MARKS = ("hops", "evidence_covered", "gold_supported")
REFUSED = {"note": 0, "query": 1, "embedding": 2, "reader": 3, "judge": 6, "agent": 5}  # what of, or which question
PLUGIN = '''
import json
from pathlib import Path


class Dump:
    """Writes down all that it is given."""

    def __init__(self, log):
        self.log = Path(log)

    def note(self, what, *given, **named):
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps([what, given, named], default=repr, ensure_ascii=False) + "\\n")

    def insert(self, trajectory):
        self.note("insert", trajectory)

    def query(self, query, query_image=None):
        self.note("query", query, vars(self), image=query_image and str(query_image))
        return [{"type": "text", "value": "nothing is known"}]

    def configure_runtime(self, **given):
        self.note("configure_runtime", **given)

    def set_query_context(self, **given):
        self.note("set_query_context", **given)

    def clear_query_context(self, **given):
        self.note("clear_query_context", **given)

    def post_query_hook(self, **given):
        self.note("post_query_hook", **given)
'''
LOOK = (
    "find . | sort; env; for file in $(find . -maxdepth 2 -type f); do echo == $file; head -c 3000 $file; done; "
    "ls -a / /tmp ~ 2>&1"
)


# The data and the models


def gold(number: int, version: int = 0) -> str:
    return f"zq-gold-{version}-{number:02d}"


def case(number: int) -> str:
    return f"Case {number:02d}."


def mark(version: int, number: int, question: dict[str, Any]) -> None:
    """Put marks into a question; another version changes gold answer and scorer only."""
    if version == 0:
        question["question"] = f"{case(number)} {question['question']}"
    question["answer"] = "AB"[version] if question["answer"] in "AB" else gold(number, version)
    separators = (SEPARATORS, OTHER_SEPARATORS)[version]
    question["eval_function"] = re.sub("separators=[^|]*", f"separators={separators}", question["eval_function"])


def exchange(root: DataRoot) -> None:
    """Other gold answers, scorers' options and evidence labels."""
    for number in range(QUESTIONS):
        root.edit_line("questions.jsonl", number + 1, partial(mark, 1, number))
        root.edit_line("evidence.jsonl", number + 1, _first_page)


def _first_page(label: dict[str, Any]) -> None:
    ((((name, _),),),) = (label["hops"],)
    label["hops"] = [[[name, 0]]]


def answer(call: Call) -> Answer:
    """What a model replies, or that it refuses and all that it was sent."""
    task = "agent" if call.body.get("tools") else call.task
    if is_refused(task, call):
        words = [call.headers["authorization"], json.dumps(call.headers)]
        if task == "embedding":  # the one whose address has a password
            address = f"http://{quote(USER)}:{quote(PASSWORD, safe='')}@{call.headers['host']}{call.path}"
            words = [words[0], address, USER, PASSWORD, *words[1:]]
        return Answer({"error": {"message": " ".join(words)}}, 401)
    if task == "embedding":
        return Answer(bags_of_words(call.body, DIMENSION))
    if task == "agent":
        return Answer(agent_turn(call))
    if task == "reader":
        return Answer(completion("\\boxed{I know of none}"))
    if task == "judge":
        return Answer(completion('{"label": 1, "reason": "it says so"}'))
    subject = subject_of(call) if task in ("note", "event") else int(cases([call.prompt]).pop()[5:7])
    return Answer(completion(json.dumps(value_of(task, subject))))


def is_refused(task: str, call: Call) -> bool:
    """One subject of each task; of the embedder, the queries about one question."""
    if task == "note":
        return bool(subject_of(call) == REFUSED["note"])
    if task == "embedding":
        return any(f"page of case {REFUSED['embedding']}" == text for text in call.body["input"])
    return task in REFUSED and case(REFUSED[task]) in "".join(call.texts)


def agent_turn(call: Call) -> dict[str, Any]:
    """Look at all there is, then hand in a state."""
    looked = [message["content"] for message in call.body["messages"] if message["role"] == "tool"]
    if not looked:
        return tool_call("shell", {"command": LOOK})
    names = re.findall(r"^\./trajectories/([0-9a-f]{8})$", looked[0], re.MULTILINE)
    span = {"trajectory_id": names[0], "start_state_index": 0, "end_state_index": 0}
    if len(looked) == 1:
        return tool_call("write_result", {"memory_markdown": "Some page.", "trajectory_spans": [span]})
    return completion("done")


def tool_call(name: str, arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "call_0", "type": "function", "function": function}
    return completion(None, "tool_calls", tool_calls=[call])


def overlay(folder: Path) -> dict[str, Any]:
    tokenizer = make_tokenizer(folder / "tokenizer.json")

    def role(name: str, **settings: Any) -> dict[str, Any]:
        calls = {"endpoint": f"LEAK_{name.upper()}", "retries": 0, "concurrency": 4}
        return {"backend": "openai", "model": f"test-{name}", **calls, **settings}

    unused: dict[str, Any] = {"file": None, "quantize": None, "script": None}
    models = {
        "reader": role("reader", **unused, tokenizer=tokenizer, reply_format="free"),
        "judge": role("judge", **unused),
        "controller": role("controller", thinking=None),
        "embedder": role("embedder", tokenizer=tokenizer, dimension=DIMENSION),
        "agent": role("agent", agent="loop", context_length=32768, attempts=1),
    }
    dump = {
        "family": "plugin",
        "label": "Dump",
        "class": "dump_memory:Dump",
        "path": str(folder / "plugins"),
        "options": {"log": str(folder / "dump.jsonl")},
    }
    settings = {
        "run": {"methods": list(METHODS)},
        "methods": {"dump": dump},
        "models": models,
        "errors": {"allow": ALLOWED},
    }
    return merged(overlay_for(folder, [], []), settings)


@dataclass
class LeakRun:
    """The run, and what was asked and dumped before and after the exchange."""

    root: DataRoot
    pipeline: Pipeline
    server: ChatServer
    first: list[Call] = field(default_factory=list)
    later: list[Call] = field(default_factory=list)
    dumped: list[str] = field(default_factory=list)
    dumped_later: list[str] = field(default_factory=list)
    output: str = ""

    def take_dump(self) -> list[str]:
        path = self.pipeline.folder / "dump.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.unlink()
        return lines


@pytest.fixture(scope="module")
def leaky(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeakRun]:
    folder = tmp_path_factory.mktemp("leaks")
    settings = overlay(folder)
    root = DataRoot(folder / "data")
    for number in range(QUESTIONS):
        root.edit_line("questions.jsonl", number + 1, partial(mark, 0, number))
    (folder / "plugins").mkdir()
    (folder / "plugins" / "dump_memory.py").write_text(PLUGIN, encoding="utf-8")
    pipeline = make_pipeline(project, folder, settings)
    with ChatServer(answer, [{"id": f"test-{role}"} for role in ROLES]) as server:
        for role, key in KEYS.items():
            address = server.url
            if role == "embedder":
                address = address.replace("//", f"//{quote(USER)}:{quote(PASSWORD, safe='')}@")
            pipeline.env.update({f"LEAK_{role.upper()}_BASE_URL": address, f"LEAK_{role.upper()}_API_KEY": key})
        run = LeakRun(root, pipeline, server)
        run.output = pipeline.run("results/table2.csv", "results/report/index.html").stdout
        run.first, run.dumped = server.of(), run.take_dump()
        exchange(root)
        shutil.move(pipeline.results, folder / "first_results")
        pipeline.run(*(f"results/answers/{method}/small/0of1.parquet" for method in SEEN_AGAIN))
        run.later, run.dumped_later = server.of()[len(run.first) :], run.take_dump()
        yield run


# The checkers


def found(marks: Iterable[str], texts: Iterable[str]) -> list[str]:
    """The marks that stand in a text."""
    everything = "\0".join(texts)
    return [one for one in marks if one in everything]


def cases(texts: Iterable[str]) -> set[str]:
    """The questions whose texts stand in some texts."""
    return {name for text in texts for name in re.findall(r"Case \d\d\.", text)}


def told(call: Call) -> list[str]:
    """All texts of a request, with what tools were called with."""
    if call.task == "embedding":
        return list(call.body["input"])
    return [json.dumps(call.body, ensure_ascii=False)]


def forms(secret: str) -> set[bytes]:
    """A secret as it may be written: plain, in an address, in JSON, and in base64, alone or within a longer text."""
    plain = {secret, quote(secret), quote(secret, safe=""), json.dumps(secret)[1:-1]}
    encoded = set[bytes]()
    for shift in range(3):
        code = base64.b64encode(b"x" * shift + secret.encode())
        encoded.add(code[4 if shift else 0 :].rstrip(b"=")[:-2])
    return {one.encode() for one in plain} | encoded


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below a folder, its name included; what is compressed as its values, too."""
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(".lance") and path.is_dir() and (path / "_versions").is_dir():
            rows = lancedb.connect(path.parent).open_table(path.stem).to_arrow()
            yield path, values(rows)
        if not path.is_file():
            continue
        content = path.read_bytes()
        yield path, str(path.relative_to(folder)).encode() + b"\n" + content
        if path.suffix == ".parquet":
            yield path, values(pq.read_table(path))
        elif path.suffix == ".gz":
            yield path, gzip.decompress(content)
        elif path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as database:
                for (name,) in database.execute("SELECT table_name FROM information_schema.tables").fetchall():
                    yield path, values(database.sql(f'SELECT * FROM "{name}"').to_arrow_table())


def values(table: pa.Table) -> bytes:
    """The texts of a table."""
    return json.dumps(table.to_pylist(), default=str, ensure_ascii=False).encode("utf-8", "replace")


def holders(folder: Path, secrets: Iterable[str]) -> set[str]:
    """Files below a folder that hold a secret in some form."""
    wanted = [form for secret in secrets for form in forms(secret)]
    return {
        str(path.relative_to(folder)) for path, content in contents(folder) if any(form in content for form in wanted)
    }


# What models and memories see


def test_gold_scorers_evidence_and_types_reach_the_judge_only(leaky: LeakRun) -> None:
    golds = [gold(number, version) for number in range(QUESTIONS) for version in (0, 1)]
    for call in leaky.first + leaky.later:
        marks = [*SPEC_MARKS, *EVIDENCE_MARKS, *[make_id("question", number) for number in range(QUESTIONS)]]
        if call.task != "judge":
            marks += golds
        if call.task != "query":  # its prompt names the type of its own question
            marks += TYPE_MARKS
        assert found(marks, told(call)) == [], call.task


def test_the_judge_sees_the_gold_answer_of_its_own_question(leaky: LeakRun) -> None:
    judged = [call for call in leaky.first if call.task == "judge"]
    assert judged
    for call in judged:
        (name,) = cases(told(call))
        golds = [gold(number) for number in range(QUESTIONS) if gold(number) in told(call)[0]]
        assert golds == [gold(int(name[5:7]))]


def test_no_request_holds_the_text_of_another_question(leaky: LeakRun) -> None:
    counts = Counter[str]()
    for call in leaky.first:
        task = "agent" if call.body.get("tools") else call.task
        texts = told(call) if task == "embedding" else [told(call)[0]]
        most = 0 if task in ("note", "event") else 1
        assert all(len(cases([text])) <= most for text in texts), task
        counts[task] += 1
    assert counts.keys() == {"note", "event", "query", "embedding", "reader", "judge", "agent"}
    assert counts["reader"] >= QUESTIONS and counts["agent"] >= 2 * QUESTIONS - 1


def test_a_query_is_told_the_type_of_its_own_question_only(leaky: LeakRun) -> None:
    kinds = {case(number): row["question_type"] for number, row in enumerate(leaky.root.questions)}
    for call in leaky.first:
        if call.task == "query":
            (name,) = cases(told(call))
            assert re.findall(r"Question type: (\S+)\.\n", call.prompt) == [kinds[name]]


def test_a_plugin_is_given_text_image_and_haystack_and_nothing_else(leaky: LeakRun) -> None:
    golds = [gold(number) for number in range(QUESTIONS)]
    ids = [make_id("question", number) for number in range(QUESTIONS)]
    assert found([*golds, *ids, *SPEC_MARKS, *TYPE_MARKS[:4], *EVIDENCE_MARKS, *SECRETS], leaky.dumped) == []
    assert all(len(cases([line])) <= 1 for line in leaky.dumped)
    events = Counter(json.loads(line)[0] for line in leaky.dumped)
    assert events["query"] == events["set_query_context"] == events["post_query_hook"] == QUESTIONS
    for what, _, named in map(json.loads, leaky.dumped):
        if what == "set_query_context":
            assert named["question_type"] is None and named["question_item"].keys() == {"question"}
    assert len({name for line in leaky.dumped for name in cases([line])}) == QUESTIONS


def test_an_agent_finds_its_own_question_and_trajectories_and_nothing_else(leaky: LeakRun) -> None:
    looks = [
        message["content"]
        for call in leaky.first
        if call.body.get("tools")
        for message in call.body["messages"]
        if message["role"] == "tool" and message["content"].startswith("exit code 0\n.\n")
    ]
    assert len({name for look in looks for name in cases([look])}) == QUESTIONS
    golds = [gold(number) for number in range(QUESTIONS)]
    for look in looks:
        assert len(cases([look])) == 1
        assert set(re.findall(r"^\./([\w.]+)$", look, re.MULTILINE)) - {"question_image.png"} == SANDBOX
        marks = [*golds, *SPEC_MARKS, *TYPE_MARKS, *EVIDENCE_MARKS, *SECRETS, "LEAK_", str(leaky.pipeline.folder)]
        assert found(marks, [look]) == []


SANDBOX = {"INSTRUCTION.md", "question.json", "scripts", "trajectories"}


def test_other_gold_answers_scorers_and_evidence_change_nothing_that_is_seen(leaky: LeakRun) -> None:
    """Everything is asked from the cache but what was refused, which is asked again in the same words."""
    asked = Counter(json.dumps(call.body, sort_keys=True) for call in leaky.first)
    assert leaky.later and not [call for call in leaky.later if json.dumps(call.body, sort_keys=True) not in asked]
    assert {call.task for call in leaky.later} == {"reader", "chat"}
    assert [steady(line) for line in leaky.dumped] == [steady(line) for line in leaky.dumped_later]


def steady(line: str) -> str:
    """A line of the dump without what is random: workspaces, names of invocations, places in memory."""
    return re.sub(r"lmev2-plugin-\w+|[0-9a-f]{32}|0x[0-9a-f]+", "*", line)


# What is written


def test_no_key_is_written_anywhere_though_servers_tell_it(leaky: LeakRun) -> None:
    credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    headers = {call.headers["authorization"] for call in leaky.first}
    assert headers == {f"Bearer {KEYS[role]}" for role in ROLES if role != "embedder"} | {f"Basic {credentials}"}
    refused = [call for call in leaky.first if is_refused("agent" if call.body.get("tools") else call.task, call)]
    assert {"agent" if call.body.get("tools") else call.task for call in refused} == set(REFUSED)
    assert found([*SECRETS, credentials], [leaky.output]) == []
    assert holders(leaky.pipeline.folder, [*SECRETS, credentials]) == set()


def test_what_the_servers_said_is_written_without_the_keys(leaky: LeakRun) -> None:
    first = leaky.pipeline.folder / "first_results"
    details = [
        str(row.get("error_detail") or row.get("origin_detail") or "")
        for stage in ("contexts", "answers", "scores", "pools")
        for path in (first / stage).rglob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    assert sum("Bearer [key]" in text for text in details) >= 4
    assert any("Basic [user and password]" in text for text in details)
    assert any("[user]:[password]@" in text for text in details)


def test_gold_answers_stay_out_of_what_memories_and_readers_made(leaky: LeakRun) -> None:
    golds = [gold(number, version) for number in range(QUESTIONS) for version in (0, 1)]
    for stage in ("pools", "embeddings", "index", "contexts", "agent", "answers"):
        assert (leaky.pipeline.folder / "first_results" / stage).is_dir(), stage
        assert holders(leaky.pipeline.folder / "first_results" / stage, golds) == set()
    for stage in ("contexts", "agent", "answers"):
        assert holders(leaky.pipeline.results / stage, golds) == set()


# That the checkers can fail


@pytest.mark.parametrize("secret", SECRETS)
def test_a_planted_secret_is_found_in_every_kind_of_file(tmp_path: Path, secret: str) -> None:
    (tmp_path / "plain.log").write_text(f"x {secret} y", encoding="utf-8")
    (tmp_path / "address.json").write_text(f"http://{quote(secret, safe='')}@host", encoding="utf-8")
    for shift in range(3):
        code = base64.b64encode(f"{'u' * shift}{secret}:more".encode()).decode()
        (tmp_path / f"base64_{shift}.txt").write_text(code, encoding="utf-8")
    with gzip.open(tmp_path / "packed.gz", "wt", encoding="utf-8") as file:
        file.write(secret)
    given = pa.table({"text": [f"{secret} " * 50] * 50})
    pq.write_table(given, tmp_path / "rows.parquet", compression="zstd")
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as database:
        database.execute("CREATE TABLE planted AS SELECT * FROM given")
    lancedb.connect(tmp_path).create_table("index", given)
    with suppress(OSError):
        (tmp_path / f"named {secret.replace('/', '_')}").mkdir()
    (tmp_path / "clean.txt").write_text("nothing", encoding="utf-8")
    hit = {Path(name).name for name in holders(tmp_path, [secret])}
    planted = {"plain.log", "address.json", "base64_0.txt", "base64_1.txt", "base64_2.txt", "packed.gz"}
    assert planted | {"rows.parquet", "rows.duckdb", "index.lance"} <= hit and "clean.txt" not in hit


def test_a_planted_leak_is_found_in_a_request() -> None:
    def call(text: str, path: str = "/v1/chat/completions") -> Call:
        body: Mapping[str, Any] = (
            {"input": [text]} if path.endswith("embeddings") else {"messages": [{"role": "user", "content": text}]}
        )
        return Call(path, {}, dict(body), 0)

    for path in ("/v1/chat/completions", "/v1/embeddings"):
        for text in (gold(3), "separators=,;¤¶|", "of type errors-gotchas", '{"hops": 1}'):
            marks = [gold(3), *SPEC_MARKS, *TYPE_MARKS, *EVIDENCE_MARKS]
            assert found(marks, told(call(text, path))), text
        assert cases(told(call("Case 01. which? Case 02. which?", path))) == {"Case 01.", "Case 02."}
    inside = {
        "messages": [{"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": gold(1)}}]}]
    }
    assert found([gold(1)], told(Call("/v1/chat/completions", {}, inside, 0)))
    assert steady('["query", "/tmp/lmev2-plugin-abc/x"]') != steady('["query", "/tmp/other/x"]')
