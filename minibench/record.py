"""Record trajectories: ``python -m minibench.record [--app shop] [--only shop-03] [--out DIR]``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from minibench.recorder import Recorder
from minibench.scenario import APPS, MAX_STATES, MIN_STATES, PolicySet, Scenario, load_policies
from minibench.server import AppServer, default_work_folder


def record_scenario(scenario: Scenario, policies: PolicySet, work: Path) -> Path:
    """Record one scenario into `work` and return its JSON file.

    Writes ``trajectories/<id>.json`` and ``screenshots/<id>/<step>.png``, replacing an earlier recording.

    Raises:
        ValueError: the trajectory's number of states lies outside 5-14.
        LookupError: the policy did not find an element.
    """
    target = work / "trajectories" / f"{scenario.id}.json"
    target.unlink(missing_ok=True)
    shutil.rmtree(work / "screenshots" / scenario.id, ignore_errors=True)
    with AppServer(scenario.app, work) as server:
        login = None if scenario.user is None else policies.logins[scenario.user]
        with Recorder(
            scenario.id,
            scenario.app,
            scenario.goal,
            base_url=server.base_url,
            start_url=scenario.start_url,
            login=login,
            database=server.database,
            out=work,
        ) as recorder:
            scenario.policy(recorder)
            trajectory = recorder.trajectory(scenario.outcome(recorder))
    count = len(trajectory["states"])
    if not MIN_STATES <= count <= MAX_STATES:
        raise ValueError(f"{scenario.id} has {count} states: change its policy to give {MIN_STATES} to {MAX_STATES}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(trajectory, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return target


def _report(path: Path, seconds: float) -> str:
    trajectory = json.loads(path.read_text(encoding="utf-8"))
    sizes = [len(state["accessibility_tree"]) for state in trajectory["states"]]
    return (
        f"{trajectory['id']}: {trajectory['outcome']}, {len(sizes)} states, "
        f"trees {min(sizes)}-{max(sizes)} characters, {seconds:.1f} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m minibench.record", description=__doc__)
    parser.add_argument("--app", choices=APPS, action="append", help="record this application only (repeatable)")
    parser.add_argument("--only", metavar="ID", action="append", help="record this scenario only (repeatable)")
    parser.add_argument("--out", type=Path, default=default_work_folder(), help="work folder (default: .minibench)")
    options = parser.parse_args(arguments)
    apps = options.app or [
        app for app in APPS if not options.only or any(i.startswith(f"{app}-") for i in options.only)
    ]
    policy_sets = [load_policies(app) for app in apps]
    known = [scenario.id for policies in policy_sets for scenario in policies.scenarios]
    unknown = sorted(set(options.only or ()) - set(known))
    if unknown:
        parser.error(f"unknown scenario {', '.join(unknown)}; known: {', '.join(known)}")
    for policies in policy_sets:
        for scenario in policies.scenarios:
            if not options.only or scenario.id in options.only:
                start = time.monotonic()
                path = record_scenario(scenario, policies, options.out.resolve())
                print(_report(path, time.monotonic() - start), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
