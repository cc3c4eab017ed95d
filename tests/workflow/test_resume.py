"""A run that is killed in the middle of reading goes on where it was: no finished call is made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pipeline import make_pipeline, overlay_for


class CountingServer:
    """A slow OpenAI-compatible endpoint on loopback that remembers the user message of every call."""

    def __init__(self) -> None:
        calls = self.calls = []  # type: list[str]
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    calls.append(str(body["messages"][-1]["content"]))
                time.sleep(0.25)
                message = {"role": "assistant", "content": r"\boxed{K-0-2}"}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                reply = {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "m",
                    "choices": [choice],
                    "usage": usage,
                }
                data = json.dumps(reply).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the client was killed

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[CountingServer]:
    running = CountingServer()
    yield running
    running.close()


def make_tokenizer(path: Path) -> str:
    """A tokenizer file that splits at white space."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"x": 0}, unk_token="x"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    return str(path)


def test_a_killed_run_repeats_no_finished_call(project: Path, tmp_path: Path, server: CountingServer) -> None:
    concurrency = 2
    overlay = overlay_for(tmp_path, [], [{"regex": ".", "text": '{"label": 0, "reason": "no"}'}])
    overlay["run"] = {"methods": ["rag_slice"], "questions": None}
    overlay["models"]["reader"] = {
        "backend": "openai",
        "model": "m",
        "file": None,
        "quantize": None,
        "tokenizer": make_tokenizer(tmp_path / "tokenizer.json"),
        "endpoint": "RESUME_TEST",
        "reply_format": "free",
        "concurrency": concurrency,
    }
    pipeline = make_pipeline(project, tmp_path, overlay)
    pipeline.env["RESUME_TEST_BASE_URL"] = server.address

    killed = subprocess.Popen(
        pipeline.command("results/table2.csv"),
        env=pipeline.env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 240
    while len(server.calls) < 3:
        assert killed.poll() is None and time.monotonic() < deadline, "the run ended before it could be killed"
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    before = len(server.calls)

    # The killed run left its lock and half-made outputs; Snakemake says how to unlock.
    blocked = pipeline.run("results/table2.csv", check=False)
    if blocked.returncode != 0:
        assert "--unlock" in blocked.stdout
        pipeline.run("--unlock")
        pipeline.run("results/table2.csv")
    asked = set(server.calls)
    assert before < len(asked)  # it was killed in the middle
    assert len(server.calls) - len(asked) <= concurrency, "a finished call was repeated"
    table = (pipeline.results / "table2.csv").read_bytes()

    undisturbed = len(server.calls)
    for output in ("answers", "contexts", "scores"):
        for path in (pipeline.results / output).rglob("*.parquet"):
            path.unlink()
    for name in ("metrics.duckdb", "table2.csv", "table2.md"):
        (pipeline.results / name).unlink()
    assert "Reading answers" in pipeline.run("results/table2.csv").stdout
    assert len(server.calls) == undisturbed
    assert (pipeline.results / "table2.csv").read_bytes() == table
