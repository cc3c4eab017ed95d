"""What the Codex CLI prints: commands counted, failures named, and nothing else believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lmev2.agent.codex_events import CodexTrace, parse_events, read_events
from lmev2.agent.masking import Mask


def line(kind: str, **content: Any) -> bytes:
    return json.dumps({"type": kind, **content}).encode() + b"\n"


def command(number: int, kind: str = "item.started", text: str = "ls") -> bytes:
    return line(
        kind, item={"id": f"item_{number}", "type": "command_execution", "command": text, "aggregated_output": ""}
    )


def completed(read: object = 10, cached: object = 4, written: object = 3) -> bytes:
    return line("turn.completed", usage={"input_tokens": read, "cached_input_tokens": cached, "output_tokens": written})


def failed(message: object) -> bytes:
    return line("turn.failed", error={"message": message})


def parse(*lines: bytes, hidden: tuple[str, ...] = ()) -> CodexTrace:
    return parse_events(lines, Mask(hidden))


def test_commands_are_counted_where_they_start_and_usage_is_kept() -> None:
    trace = parse(
        line("thread.started", thread_id="t"),
        line("turn.started"),
        command(0),
        command(0, "item.completed"),
        command(1),
        line("item.started", item={"id": "item_2", "type": "file_change"}),
        line("item.completed", item={"id": "item_3", "type": "agent_message", "text": "Done"}),
        completed(),
        line("turn.started"),
        completed(100, 40, 30),
    )
    assert trace.events[-1]["usage"] == {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 30}
    assert (trace.commands, trace.completed, trace.failure, trace.skipped, len(trace.events)) == (2, True, None, 0, 10)


def test_the_last_turn_decides() -> None:
    assert parse(completed(), line("turn.started")).completed is False
    assert parse(failed("x"), line("turn.started"), completed()) == parse(
        failed("x"), line("turn.started"), completed()
    )
    assert parse(failed("x"), line("turn.started"), completed()).failure is None
    trace = parse(completed(), line("turn.started"), line("error", message="Reconnecting..."), failed("no more"))
    assert (trace.completed, trace.failure) == (False, "no more")


def test_an_error_speaks_for_a_turn_that_never_ended() -> None:
    assert parse(line("turn.started"), line("error", message="cannot start")).failure == "cannot start"
    assert parse(line("turn.started"), line("error", message="passing"), completed()).failure is None
    assert parse().failure is None


def test_the_endpoints_own_words_are_taken_out_of_their_json() -> None:
    assert parse(failed('{"error": {"message": "no such model"}}')).failure == "no such model"
    for message in ('{"error": "x"}', "[1]", "{", '{"error": {"message": 1}}'):
        assert parse(failed(message)).failure == message
    assert str(parse(failed("[" * 100_000)).failure).startswith("[[[")
    assert parse(failed(None)).failure is None
    assert parse(line("turn.failed", error="text")).completed is False


def test_junk_is_skipped_and_counted(tmp_path: Path) -> None:
    junk = [
        b"not json\n",
        b"[1]\n",
        b'"text"\n',
        b"{}\n",
        b'{"type": 1}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"\n",
        b"nul\x00\n",
    ]
    path = tmp_path / "events"
    path.write_bytes(
        b"".join(
            [*junk, command(0), b'{"type": "x", "t": "' + b"y" * 9_000_000 + b'"}\n', completed(), b'{"type": "tur']
        )
    )
    trace = read_events(path)
    assert (trace.commands, trace.completed) == (1, True)
    assert trace.skipped == len(junk) - 1 + 2
    assert len(trace.events) == 2
    path.write_bytes(b"")
    assert read_events(path) == parse()


def test_usage_may_be_anything() -> None:
    for usage in ([1], None, {"input_tokens": -1}, "x"):
        assert parse(line("turn.completed", usage=usage)).completed
    assert parse(line("turn.completed")).completed


def test_events_are_cut_and_hold_no_secret() -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    trace = parse(
        command(0, text="echo sk-secret-of-a-test " + "a" * 50_000),
        line("item.completed", item={"sk-secret-of-a-test": deep, "text": "\ud800"}),
        failed("key sk-secret-of-a-test is wrong"),
        hidden=("sk-secret-of-a-test", ""),
    )
    kept = json.dumps(trace.events)
    assert "sk-secret" not in kept and "sk-secret" not in str(trace.failure)
    assert trace.failure == "key [hidden] is wrong"
    assert len(kept) < 10_000
    json.dumps(trace.events, ensure_ascii=False).encode()


def test_a_key_that_is_a_word_hides_nothing() -> None:
    for key in ("EMPTY", "token", "type", "item.started", "function"):
        trace = parse(command(0, text="echo the token of type function is EMPTY"), hidden=(key,))
        assert trace.events == parse(command(0, text="echo the token of type function is EMPTY")).events


def test_the_number_of_events_is_bounded_but_all_count() -> None:
    trace = parse(*[command(number) for number in range(6000)], completed())
    assert (trace.commands, trace.completed, len(trace.events)) == (6000, True, 4000)


def test_numbers_that_are_none_are_kept_as_text() -> None:
    (event,) = parse_events([b'{"type": "x", "n": [NaN, 1e999, 1.5]}\n']).events
    assert event["n"] == ["nan", "inf", 1.5]
