from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from harness.engine.certificates import VIRTUAL_START, certificates, virtual_certificates
from harness.engine.compose_file import VARIABLES, compose_document, compose_text
from harness.engine.docker import containers
from harness.engine.docker.containers import DelayedStarts
from harness.engine.docker.sampler import Sampler, folder_size, tree_size
from harness.engine.docker_cli import command_error, hint_for, tail
from harness.engine.images.build import Build, Images, Variant, folder_hash, fresh_copy, is_ours
from harness.engine.served_files import MODIFIED, first_difference, served_file
from harness.errors import EngineError
from harness.topology import build_lab
from harness.topology.spec import LabFile
from tests.examples import cell, implementation
from tests.polling import wait_for


def test_the_compose_file_names_every_variable_it_needs() -> None:
    text = compose_text(build_lab(cell(), 0))
    for name in VARIABLES:
        assert "${" + name + ":?" in text
    assert yaml.safe_load(text) == compose_document(build_lab(cell(), 0))


def test_the_simulator_gets_two_capabilities_and_no_more() -> None:
    sim = compose_document(build_lab(cell(), 0))["services"]["sim"]
    assert sim["cap_drop"] == ["ALL"]
    assert sim["cap_add"] == ["NET_ADMIN", "NET_RAW"]
    assert not {"privileged", "devices"} & set(sim)


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "start the Docker daemon"),
        ("Error response from daemon: Pool overlaps with other one on this address space", "193.167.x.0/24"),
        ("write /var/lib/docker/x: no space left on device", "disk is full"),
        ("Error response from daemon: No such image: alpha:1", "build or pull"),
    ],
)  # fmt: skip
def test_docker_s_errors_say_what_to_do(stderr: str, words: str) -> None:
    error = command_error("docker compose up", stderr)
    assert words in error.hint
    assert stderr.splitlines()[0] in error.message
    assert error.exit_code == 3


def test_an_unknown_error_has_no_made_up_hint() -> None:
    assert hint_for("something else") == ""


def test_a_build_is_named_after_its_content(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\n")

    def builds() -> tuple[Build, Build]:
        build = Build("a", tmp_path, 1)
        return build, Build("b", tmp_path, 1, bases={"BASE": build})

    build, above = builds()
    assert above.identity != build.identity
    assert build.reference == f"quic-lab/a:{build.identity[:12]}"
    before = build.identity, above.identity
    (tmp_path / "Dockerfile").write_text("FROM y\n")
    # What a process has begun with, it ends with.
    assert (build.identity, above.identity) == before
    build, above = builds()
    assert build.identity != before[0]
    assert above.identity != before[1]


def test_a_folder_is_read_once_however_many_cells_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("endpoint", "sim", "lab-kernel", "x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").write_text("ARG ENDPOINT\n")
    read: list[str] = []

    def counted(folder: Path, variant: Variant | None = None) -> str:
        read.append(folder.name)
        return folder_hash(folder, variant)

    monkeypatch.setattr("harness.engine.images.build.folder_hash", counted)
    monkeypatch.setattr("harness.engine.images.build.inspect_image", lambda reference: None)
    images = Images(tmp_path, tmp_path / "state")
    for _ in range(3):
        images.image_of(implementation(image=None, build="."), tmp_path / "x")
        images.sim("lab")
    assert sorted(set(read)) == ["endpoint", "lab-kernel", "sim", "x"]
    # The simulator's is in its build and in the key of its cells.
    assert len(read) == 5


@pytest.mark.parametrize(("argument", "folder"), [("ENDPOINT", "endpoint"), ("RUST", "rust"), ("GO", "go")])
def test_a_build_gets_the_bases_that_its_dockerfile_names(tmp_path: Path, argument: str, folder: str) -> None:
    images = Images(tmp_path, tmp_path / "state")
    text = f"ARG {argument}=r\nFROM ${{{argument}}}\nARG {argument}S=e\n"
    for name, content in (("endpoint", ""), ("rust", ""), ("go", ""), ("x", text)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").write_text(content)
    build = images.build_of(implementation(image=None, build="."), tmp_path / "x")
    assert build is not None
    assert {name: below.folder for name, below in build.bases.items()} == {argument: tmp_path / folder}


def test_only_our_images_are_cleaned() -> None:
    assert is_ours("quic-lab/sim:0123-lab")
    assert is_ours("debian:trixie-slim")
    assert not is_ours("somebody/elses:1")
    assert not is_ours("<none>:<none>")


def test_a_folder_s_hash_sees_names_modes_and_content(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("1")
    seen = {folder_hash(tmp_path)}
    file.chmod(0o755)
    seen.add(folder_hash(tmp_path))
    file.rename(tmp_path / "g")
    seen.add(folder_hash(tmp_path))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("")
    (tmp_path / "image.yaml").write_text("notes: none of the image's business")
    (tmp_path / "components.json").write_text("{}")
    assert len(seen) == 3
    assert folder_hash(tmp_path) in seen
    # A file of that name that is not the record goes into the image.
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "components.json").write_text("{}")
    assert folder_hash(tmp_path) not in seen


def test_a_context_is_built_of_files_that_are_newer_than_any_cache(tmp_path: Path) -> None:
    """Cargo takes what is in its cache for made of files that are older, whatever is in them."""
    source = tmp_path / "image" / "src" / "run.sh"
    source.parent.mkdir(parents=True)
    source.write_text("true")
    source.chmod(0o755)
    (tmp_path / "image" / "link").symlink_to("src/run.sh")
    os.utime(source, (0, 0))
    cached = tmp_path / "cached"
    cached.touch()
    with fresh_copy(tmp_path / "image") as context:
        copy = context / "src" / "run.sh"
        assert copy.stat().st_mtime_ns >= cached.stat().st_mtime_ns
        assert (copy.read_text(), os.access(copy, os.X_OK)) == ("true", True)
        assert (context / "link").readlink() == Path("src/run.sh")
        assert folder_hash(context) == folder_hash(tmp_path / "image")
    assert not context.exists() and source.stat().st_mtime == 0


def test_served_files_are_the_same_everywhere(tmp_path: Path) -> None:
    path, file = (
        served_file(tmp_path / "a", LabFile(name="f", size=100_001)),
        served_file(tmp_path / "b", LabFile(name="f", size=100_001)),
    )
    assert path.read_bytes() == file.read_bytes()
    assert path.stat().st_size == 100_001
    assert hashlib.sha256(path.read_bytes()).hexdigest()[:16] == "9a68e07897c48459"


def test_served_files_look_the_same_everywhere(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        file = served_file(tmp_path / "www", LabFile(name="f", size=10))
    finally:
        os.umask(before)
    assert (file.stat().st_mode & 0o777, file.stat().st_mtime) == (0o644, MODIFIED)
    assert (file.parent.stat().st_mode & 0o777, file.parent.stat().st_mtime) == (0o755, MODIFIED)
    # One that was made by an older harness, too.
    os.utime(file)
    assert served_file(tmp_path / "www", LabFile(name="f", size=10)).stat().st_mtime == MODIFIED


@given(offset=st.integers(0, 999), cut=st.integers(0, 999))
def test_one_wrong_byte_is_found_where_it_is(tmp_path_factory: pytest.TempPathFactory, offset: int, cut: int) -> None:
    folder = tmp_path_factory.mktemp("same")
    good = bytes(1000)
    bad = bytearray(good)
    bad[offset] ^= 1
    (folder / "good").write_bytes(good)
    (folder / "bad").write_bytes(bad)
    (folder / "cut").write_bytes(good[:cut])
    assert first_difference(folder / "good", folder / "bad") == offset
    assert first_difference(folder / "cut", folder / "good") == cut
    assert first_difference(folder / "good", folder / "good") is None


def test_certificates_are_kept_while_they_last(tmp_path: Path) -> None:
    first = certificates(tmp_path) / "cert.pem"
    content = first.read_bytes()
    assert (certificates(tmp_path) / "cert.pem").read_bytes() == content
    first.write_text("broken")
    assert b"BEGIN CERTIFICATE" in (certificates(tmp_path) / "cert.pem").read_bytes()
    assert {file.name for file in first.parent.iterdir()} == {"ca.pem", "cert.pem", "priv.key"}


def test_certificates_of_virtual_time_are_the_same_everywhere(tmp_path: Path) -> None:
    folder = virtual_certificates(tmp_path)
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in folder.iterdir()}
    assert digests == {"ca.pem": "b3906138ddeca54b", "cert.pem": "04bf84d3e216bcac", "priv.key": "41005b0baf161a87"}
    assert folder != certificates(tmp_path)
    assert {(file.stat().st_mtime, file.stat().st_mode & 0o777) for file in folder.iterdir()} == {(MODIFIED, 0o644)}
    (folder / "cert.pem").write_text("another's")
    again = hashlib.sha256((virtual_certificates(tmp_path) / "cert.pem").read_bytes()).hexdigest()[:16]
    assert again == digests["cert.pem"]


def test_certificates_of_virtual_time_are_valid_when_its_clock_starts(tmp_path: Path) -> None:
    folder = virtual_certificates(tmp_path)
    authority, leaf = (x509.load_pem_x509_certificate((folder / name).read_bytes()) for name in ("ca.pem", "cert.pem"))
    leaf.verify_directly_issued_by(authority)
    assert leaf.not_valid_before_utc < VIRTUAL_START < leaf.not_valid_after_utc
    key = serialization.load_pem_private_key((folder / "priv.key").read_bytes(), None)
    assert key.public_key() == leaf.public_key()


def test_the_sampler_brackets_growth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    sampled: list[int] = []

    def sample(folder: Path) -> int:
        sampled.append(folder_size(folder))
        return sampled[-1]

    def await_samples(size: int) -> None:
        wait_for(lambda: sampled.count(size) >= 2)

    monkeypatch.setattr("harness.engine.docker.sampler.folder_size", sample)
    sampler = Sampler(tmp_path, log_limit=1 << 30)
    sampler.watch_download(downloads, flow=0, transfer=0)
    sampler.start()
    with (downloads / "f").open("wb", buffering=0) as file:
        for size in (0, 1000, 2000, 3000, 4000):
            await_samples(size)
            file.write(b"x" * 1000)
        await_samples(5000)
    sampler.stop()
    rows = [tuple(map(int, line.split(","))) for line in (tmp_path / "growth.csv").read_text().splitlines()[1:]]
    sizes = [row[3] for row in rows]
    assert sizes == sorted(sizes)
    assert set(sizes) == {0, 1000, 2000, 3000, 4000, 5000}
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    # Each growth is preceded by a sample of the size before.
    assert all(sizes.count(size) >= 2 for size in (1000, 2000, 3000, 4000))


def test_the_sampler_sees_a_log_that_overflows(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "qlog"
    logs.mkdir(parents=True)
    (logs / "big").write_bytes(bytes(2000))
    sampler = Sampler(tmp_path, log_limit=1000)
    sampler.watch_logs({"server0": tmp_path / "logs"})
    sampler.start()
    wait_for(lambda: sampler.overflowed)
    sampler.stop()
    assert sampler.overflowed == "server0"


def test_sizes_of_what_is_not_there(tmp_path: Path) -> None:
    assert folder_size(tmp_path / "none") == 0
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_bytes(bytes(10))
    assert tree_size(tmp_path) == 10
    assert tail(tmp_path / "none") == ()


def test_what_is_held_becomes_its_own_program_in_the_end() -> None:
    service = containers.delayed_service(["/run_endpoint.sh", "--price=$5"], Path("/runs/a$b/held/client3"))
    shell, option, script, *program = service["entrypoint"]
    assert (shell, option) == ("/bin/sh", "-c")
    assert script.endswith('exec "$0" "$@"')
    assert program == ["/run_endpoint.sh", "--price=$5"]
    assert service["volumes"] == ["/runs/a$b/held/client3:/held:ro"]


def test_a_client_is_held_until_it_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_program", lambda image: ["echo", image, "goes on"])
    delayed_starts = DelayedStarts(tmp_path / "held", {"client1": "alpha"})
    service = delayed_starts.services()["client1"]
    words = [word.replace("/held/", f"{tmp_path}/held/client1/") for word in service["entrypoint"]]
    assert not delayed_starts.release("client1"), "nobody waits yet"
    waiting = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.2)
    assert delayed_starts.release("client1")
    assert waiting.communicate(timeout=5)[0] == "alpha goes on\n"
    # Started once more, it is not held again.
    assert subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=5, check=True).stdout == "alpha goes on\n"
    delayed_starts.remove()
    assert not (tmp_path / "held").exists()


def _docker(folder: Path, monkeypatch: pytest.MonkeyPatch, build: str) -> None:
    """A `docker` that knows no image, and whose builds do this."""
    script = folder / "bin" / "docker"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nif [ "$1" = image ]; then echo "No such image" >&2; exit 1; fi\n{build}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")


def _one_build(folder: Path, dockerfile: str = "FROM scratch\n") -> Build:
    (folder / "x").mkdir()
    (folder / "x" / "Dockerfile").write_text(dockerfile)
    return Build("x", folder / "x", 1)


def test_cancelled_builds_end_at_once_and_leave_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _docker(tmp_path, monkeypatch, f"echo $$ >{tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 60")
    build, images = _one_build(tmp_path), Images(tmp_path, tmp_path / "state")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(images.make, build, lambda name, seconds: None)
        wait_for(lambda: future.done() or (tmp_path / "pid").exists())
        assert not future.done()
        images.cancel()
        with pytest.raises(EngineError, match="the image x was ended"):
            future.result(timeout=5)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    # And none is begun afterwards.
    with pytest.raises(EngineError, match="was ended"):
        images.make(build, lambda name, seconds: None)


@pytest.mark.parametrize(("jobs", "arguments"), [(None, []), (1, ["CARGO_BUILD_JOBS=1"])])
def test_a_build_beside_runs_is_told_how_many_compilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int | None, arguments: list[str]
) -> None:
    _docker(tmp_path, monkeypatch, f'echo "$@" >{tmp_path}/words')
    build = _one_build(tmp_path, "FROM scratch\nARG CARGO_BUILD_JOBS\n")
    Images(tmp_path, tmp_path / "state").make(build, lambda name, seconds: None, jobs)
    words = (tmp_path / "words").read_text().split()
    assert [word for word in words if word.startswith(("CARGO", "GOMAXPROCS"))] == arguments


def test_a_long_chain_is_large_and_each_certificate_is_signed_by_the_next(tmp_path: Path) -> None:
    folder = virtual_certificates(tmp_path, 9)
    chain = x509.load_pem_x509_certificates((folder / "cert.pem").read_bytes())
    (authority,) = x509.load_pem_x509_certificates((folder / "ca.pem").read_bytes())
    assert len(chain) == 9
    for certificate, issuer in itertools.pairwise([*chain, authority]):
        certificate.verify_directly_issued_by(issuer)
    # What a server sends of it is more than three times a client's first datagram, by far.
    assert sum(len(certificate.public_bytes(serialization.Encoding.DER)) for certificate in chain) > 7500
    assert folder != virtual_certificates(tmp_path)
