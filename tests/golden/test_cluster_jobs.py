"""The job script in docs/cluster.md is what dask-jobqueue generates for it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.examples import ROOT

CERTIFICATES = "/shared/certificates"


@pytest.fixture
def slurm_job() -> Any:
    """Its import takes SIGINT for itself, which no other test is to find."""
    before = signal.getsignal(signal.SIGINT)
    try:
        from dask_jobqueue.slurm import SLURMJob
    finally:
        signal.signal(signal.SIGINT, before)
    return SLURMJob


def test_the_slurm_script_is_the_generated_one(slurm_job: Any) -> None:
    make = slurm_job
    files = [("ca-file", "ca"), ("cert", "cert"), ("key", "key")]
    certificates = [word for option, name in files for word in (f"--tls-{option}", f"{CERTIFICATES}/{name}.pem")]
    job = make(
        scheduler="tls://10.0.0.1:8786", name="quic-lab", queue="long", cores=8, processes=8, memory="32GB",
        walltime="04:00:00", python="/shared/quic-lab/.venv/bin/python",
        worker_extra_args=["--no-dashboard", *certificates],
    )  # fmt: skip
    page = (ROOT / "docs" / "cluster.md").read_text()
    shown = page.partition("<!-- slurm -->\n```\n")[2].partition("\n```")[0]
    assert shown == job.job_script().strip()
