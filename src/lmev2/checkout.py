"""The library of the checkout, rather than an installed copy, in the jobs of a run."""

from __future__ import annotations

import os


def import_first(source: str) -> None:
    """Let child processes import from this folder first.

    Snakemake puts what a workflow added to its path at the end of a job's path, where an installed copy of the library
    would stand before it.
    """
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([source, inherited] if inherited else [source])
