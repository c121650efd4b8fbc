"""What docs/cluster.md shows is what is generated: a job script by dask-jobqueue, manifests by a command of ours."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli.cluster import cluster
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


def kubernetes(*words: str) -> str:
    result = CliRunner().invoke(cluster, ["kubernetes", *words])
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def test_the_manifests_are_the_generated_ones() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    command, _, shown = page.partition("<!-- kubernetes ")[2].partition(" -->\n```yaml\n")
    assert shown.partition("\n```")[0] == kubernetes(*command.split()[3:]).strip()


def test_manifests_fit_together_and_ask_for_no_privilege() -> None:
    scheduler, service, workers = yaml.safe_load_all(kubernetes("mine/worker:1", "--workers", "3", "--memory", "6"))
    assert (scheduler["kind"], service["kind"], workers["kind"]) == ("Deployment", "Service", "Deployment")
    assert workers["spec"]["replicas"] == 3
    # Whom the service leads to, and where workers look for it.
    assert service["spec"]["selector"] == scheduler["spec"]["template"]["metadata"]["labels"]
    (port,) = service["spec"]["ports"]
    for manifest in (scheduler, workers):
        assert manifest["spec"]["selector"]["matchLabels"] == manifest["spec"]["template"]["metadata"]["labels"]
        pod = manifest["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        # Every folder that a variable or an option names is one that is there.
        there = [mount["mountPath"] for mount in container["volumeMounts"]]
        named = [variable["value"] for variable in container["env"]] + container["command"]
        assert all(any(word.startswith(place) for place in there) for word in named if word.startswith("/"))
    (worker,) = workers["spec"]["template"]["spec"]["containers"]
    assert f"tls://{service['metadata']['name']}:{port['port']}" in worker["command"]
    assert worker["resources"]["limits"]["memory"] == "6Gi"
