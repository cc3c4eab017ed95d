"""Look at the endpoints of all roles of the configuration, and write what was found."""

from pathlib import Path

from lmev2.endpoints import check_configured, configured_roles
from lmev2.job import Job

with Job(snakemake) as job:
    check_configured(configured_roles(job.config), Path(snakemake.params.file))
