"""Fetching a data root from the Hugging Face hub, at a pinned revision, with its published sums checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, RevisionResolutionError, XetDownloadError

from lmev2.data.checksums import verify_checksums
from lmev2.data.errors import PROBLEM_LIMIT, DataError
from lmev2.data.layout import BUNDLES_FOLDER

_REVISION = re.compile(r"[0-9a-f]{40}")


def fetch_dataset(
    repo_id: str,
    revision: str | None,
    target: Path,
    *,
    bundles: bool = True,
    download: Callable[..., Any] = snapshot_download,
) -> None:
    """Download a dataset repository into ``target`` and check its files; what is there already is not fetched again.

    Args:
        repo_id: owner and name, such as ``xiaowu0162/longmemeval-v2``.
        revision: the commit, 40 hexadecimal digits. Branches and tags are refused, because they move.
        bundles: fetch the bundles of screenshots too, which are most of the bytes.
        download: takes the arguments of ``huggingface_hub.snapshot_download``.

    Raises:
        DataError: no pinned revision, a failed download, or files that are missing or not what was published.
    """
    if revision is None or not _REVISION.fullmatch(revision):
        raise DataError(
            f"found revision {revision!r} for data set {repo_id!r}, expected a full commit id of 40 hexadecimal digits "
            "(see the history of the repository's files on the hub), so that the data cannot change under a result"
        )
    target.mkdir(parents=True, exist_ok=True)
    try:
        download(
            repo_id=repo_id,
            repo_type="dataset",
            revision=revision,
            local_dir=target,
            ignore_patterns=None if bundles else [f"{BUNDLES_FOLDER}/*"],
        )
    except (OSError, HFValidationError, RevisionResolutionError, XetDownloadError) as error:
        raise DataError(
            f"could not fetch data set {repo_id!r} at revision {revision} into {target}: {type(error).__name__}: "
            f"{error}. Check the network, the name and the revision; running it again goes on where it stopped."
        ) from error
    found = verify_checksums(target)
    problems = [str(problem) for problem in found if bundles or not problem.path.startswith(f"{BUNDLES_FOLDER}/")]
    if problems:
        raise DataError(
            f"{target}: {len(problems)} file(s) of {repo_id!r} at revision {revision} are not what was published; "
            "delete them and fetch again:",
            problems[:PROBLEM_LIMIT],
        )
