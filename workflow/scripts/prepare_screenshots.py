"""Unpack the screenshot bundles of the data root, where it has any."""

import json
from dataclasses import asdict
from pathlib import Path

from lmev2.data.layout import BUNDLES_FOLDER, SCREENSHOTS_FOLDER
from lmev2.data.screenshots import UnpackReport, find_bundles, unpack_screenshots
from lmev2.job import Job

with Job(snakemake) as job:
    bundles = find_bundles(job.data_root / BUNDLES_FOLDER)
    # Without bundles nothing is written: a data root may be read-only.
    report = unpack_screenshots(bundles, job.data_root / SCREENSHOTS_FOLDER) if bundles else UnpackReport((), (), 0, 0)
    Path(snakemake.output[0]).write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
