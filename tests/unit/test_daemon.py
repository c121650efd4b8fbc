"""What a Docker daemon is, by what it says of itself: what labs can run on, and what its machine requires."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.engine.compose_file import compose_document, paths_document
from harness.engine.docker.daemon import SLICE, Daemon, describe_daemon, is_of_container
from harness.engine.docker.run_options import launch
from harness.errors import EngineError
from harness.execution.engines import docker_versions
from harness.topology import build_lab
from tests.examples import cell

ENGINE = {"Client": {"Version": "28"}, "Server": {"Version": "26.1.5", "Components": [{"Name": "Engine"}]}}
PODMAN_SOCKET = {"Client": {"Version": "28"}, "Server": {"Version": "5.4", "Components": [{"Name": "Podman Engine"}]}}
PODMAN_COMMAND = {"Client": {"Version": "5.4.2", "APIVersion": "5.4.2"}}
SECCOMP = "name=seccomp,profile=builtin"


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a `docker` in place whose daemon says this of itself."""

    def play(version: dict[str, Any], command: str = "Docker version 26.1.5", **information: Any) -> None:
        for name, content in (("version", version), ("info", information)):
            (tmp_path / name).write_text(json.dumps(content))
        script = tmp_path / "docker"
        script.write_text(
            f'#!/bin/sh\ncase $1 in --version) echo "{command}" ;; compose) echo 2.26.1 ;; *) cat {tmp_path}/$1 ;; esac\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return play


@pytest.mark.parametrize(
    ("options", "driver", "cgroups", "expected"),
    [
        ([SECCOMP], "cgroupfs", "1", Daemon()),
        ([SECCOMP, "name=cgroupns"], "cgroupfs", "2", Daemon()),
        ([SECCOMP, "name=cgroupns"], "systemd", "2", Daemon(slices=True)),
        # The groups of version 1 are not one tree: a slice of systemd's is none for the processor.
        ([SECCOMP], "systemd", "1", Daemon()),
        ([SECCOMP, "name=selinux"], "systemd", "2", Daemon(selinux=True, slices=True)),
        ([SECCOMP, "name=rootless", "name=cgroupns"], "none", "2", Daemon(rootless=True)),
        ([SECCOMP, "name=userns"], "cgroupfs", "2", Daemon(remaps_users=True)),
    ],
)
def test_a_daemon_is_what_it_says(daemon: Any, options: list[str], driver: str, cgroups: str, expected: Daemon) -> None:
    daemon(ENGINE, SecurityOptions=options, CgroupDriver=driver, CgroupVersion=cgroups)
    assert describe_daemon() == expected


@pytest.mark.parametrize(
    ("version", "command", "options", "words"),
    [
        (PODMAN_SOCKET, "Docker version 28", [], "Podman's"),
        (PODMAN_COMMAND, "podman version 5.4.2", [], "Podman's"),
        (ENGINE, "Docker version 28", ["name=rootless"], "is rootless"),
        (ENGINE, "Docker version 28", ["name=userns"], "(userns-remap)"),
    ],
)
def test_what_labs_cannot_run_on_is_refused_by_name_before_anything_starts(
    daemon: Any, version: dict[str, Any], command: str, options: list[str], words: str
) -> None:
    daemon(version, command, SecurityOptions=options, CgroupDriver="systemd", CgroupVersion="2")
    with pytest.raises(EngineError) as refused:
        docker_versions(required=True)
    assert words in refused.value.message
    assert "--engine virtual" in refused.value.hint
    # Virtual time only notes its version.
    assert docker_versions(required=False)["compose"] == "2.26.1"


def test_a_daemon_that_does_not_answer_is_said(daemon: Any) -> None:
    daemon({"Client": {"Version": "28"}, "Server": None}, ServerErrors=["Cannot connect to the Docker daemon at unix:"])
    with pytest.raises(EngineError, match=r"docker info: .*Cannot connect to the Docker daemon"):
        describe_daemon()


def test_files_are_labelled_for_containers_where_selinux_is_on() -> None:
    lab = build_lab(cell(), 0)
    document = Daemon(selinux=True).adapt_document(compose_document(lab))
    volumes = [volume for service in document["services"].values() for volume in service.get("volumes", [])]
    mounts = [volume for volume in volumes if volume.startswith("${")]
    assert mounts and all(volume.endswith((":z", ":ro,z")) for volume in mounts)
    assert any(volume.endswith(":/certs:ro,z") for volume in mounts)
    assert any(volume.endswith("/server:/logs:z") for volume in mounts)
    # Volumes of Docker's own have a label.
    assert Daemon(selinux=True).adapt({"volumes": ["/sessions"]}) == {"volumes": ["/sessions"]}


def test_containers_are_in_a_slice_of_their_own_where_systemd_has_the_groups() -> None:
    lab = build_lab(cell(), 0)
    for document in (compose_document(lab), paths_document(lab)):
        assert Daemon().adapt_document(document) == document
        adapted = Daemon(slices=True).adapt_document(document)["services"]
        assert adapted.keys() == document["services"].keys()
        assert {service["cgroup_parent"] for service in adapted.values()} == {SLICE}
    server = Daemon(slices=True).adapt(compose_document(lab)["services"]["server0"])
    variables = dict.fromkeys(("LAB_WWW", "LAB_CERTS", "LAB_OUT", "LAB_OWNER", "LAB_MEMORY"), "x")
    words = launch({key: value for key, value in server.items() if key != "depends_on"}, "s", "p", "n", variables).words
    assert words[words.index("--cgroup-parent") + 1] == SLICE


@pytest.mark.parametrize(
    ("text", "here"),
    [
        ("0::/system.slice/docker-CONTAINER.scope\n", True),
        ("9:cpu:/docker/CONTAINER\n1:name=systemd:/docker/CONTAINER\n", True),
        ("0::/../CONTAINER\n", True),
        # That of a Docker Desktop: the number belongs to a browser on this side.
        ("0::/user.slice/user-1000.slice/session-2.scope\n", False),
        ("0::/\n", False),
        (None, False),
    ],
)
def test_a_number_of_a_process_counts_only_where_it_is_the_containers(
    tmp_path: Path, text: str | None, here: bool
) -> None:
    container = "434bb1a4f761169ff0995db4321cddc9bd46b1bf46a900eb6e104f0ab9d0e7cc"
    if text is not None:
        (tmp_path / "17").mkdir()
        (tmp_path / "17" / "cgroup").write_text(text.replace("CONTAINER", container))
    assert is_of_container(17, container, tmp_path) is here
