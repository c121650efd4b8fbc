"""Virtual time repeats to the byte, whoever plays, and endpoints see the same processor on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.capture.files import read_bytes
from harness.catalogue import Catalogue
from harness.engine.virtual.engine import HOST_CPU
from harness.evaluation.cell_result import CellResult
from harness.execution import App, CheckoutPaths, Options
from harness.execution.matrix import Request
from harness.outcome import Cell, MeasuredRun, Run
from harness.scenario.schema import Implementation
from tests.examples import ROOT
from tests.lab.conftest import CACHE, LINKS, Harness, Manifest, build_image
from tests.lab.test_flows import DUMBBELL, POISSON, QUIC

Pair = tuple[str, str]


def stacks() -> dict[str, Implementation]:
    """The implementations that can be made from this repository alone."""
    implementations = [item for item, _ in Catalogue(ROOT).implementations().values()]
    return {
        item.name: item
        for item in sorted(implementations, key=lambda item: item.name)
        if (item.speaks_quic or "h2" in item.protocols) and not item.elsewhere
    }


def ring(known: Sequence[Implementation]) -> list[Pair]:
    """Each with itself; who is a client or a server alone, with the next that understands it."""

    def interoperate(client: Implementation, server: Implementation) -> bool:
        return "client" in client.roles and "server" in server.roles and bool({*client.protocols} & {*server.protocols})

    pairs = [
        (implementation.name, implementation.name)
        for implementation in known
        if interoperate(implementation, implementation)
    ]
    alone = {name for name, _ in pairs}
    for index, implementation in enumerate(known):
        if implementation.name in alone:
            continue
        implementations = [*known[index + 1 :], *known[:index]]
        pairs += [
            (implementation.name, stack.name) for stack in implementations if interoperate(implementation, stack)
        ][:1]
        # Browsers come first in this order, and take longest.
        earlier = reversed(implementations)
        pairs += [(stack.name, implementation.name) for stack in earlier if interoperate(stack, implementation)][:1]
    return list(dict.fromkeys(pairs))


STACKS = stacks()
PAIRS = ring(list(STACKS.values()))
#: Stacks that repeat on the host's processor too: quiche and tquic with RDRAND masked, quic-go, which never asks it.
ON_HOST_CPU = ("quiche", "tquic", "quic-go")
#: Of these the next seed is run, too.
OTHER_SEED = ("ngtcp2", "quiche", "quic-go")


@dataclass(frozen=True)
class Lossy:
    """A cell with loss both ways and an overflowing queue, so that chance decides; 2 MB."""

    folder: Path
    file: str

    def run(
        self, store: str, pairs: Iterable[Pair], *, seed: int = 1, host_cpu: bool = False
    ) -> dict[Pair, CellResult]:
        """The pairs' cells, in this order, two side by side, into a store of that name."""
        app = App(CheckoutPaths(ROOT, self.folder / store, ROOT / ".state", CACHE, host_cpu))
        wanted = list(pairs)
        clients, servers = ([STACKS[name] for name in dict.fromkeys(names)] for names in zip(*wanted, strict=True))
        request = Request(
            app.catalogue.find_scenarios([self.file]), clients, servers, engine="virtual", sim_kernel="lab", seed=seed
        )
        cells = {(cell.client.name, cell.server.name): cell for cell in app.matrix(request, _deaf, pull=False)}
        results = app.run_cells([cells[pair] for pair in wanted], 1, Options(jobs=2), _deaf)
        return dict(zip(wanted, results, strict=True))


def _deaf(event: object) -> None:
    """Nobody listens."""


def _only(result: CellResult) -> tuple[Cell, Run, MeasuredRun]:
    run, measured = result.runs[0]
    assert measured is not None, run.outcome
    return result.cell, run, measured


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Lossy:
    folder = tmp_path_factory.mktemp("repeat")
    links = {name: {**link, "loss": "1 %"} for name, link in LINKS.items()}
    case = Harness(folder).scenario("lossy", path=links, flows=[{"download": "2 MB"}], milestones=["1 MB", "2 MB"])
    return Lossy(folder, case)


@pytest.fixture(scope="module")
def twice(warm: Harness, lossy: Lossy) -> dict[Pair, list[CellResult]]:
    """Each pair's run and its repetition, which has other runs beside it."""
    passes = [lossy.run("first", PAIRS), lossy.run("again", PAIRS[::-1])]
    return {pair: [results[pair] for results in passes] for pair in PAIRS}


@pytest.mark.parametrize("pair", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_a_pair_repeats_to_the_last_byte(twice: dict[Pair, list[CellResult]], pair: Pair) -> None:
    (_, run, measured), (_, again, measured_again) = (_only(result) for result in twice[pair])
    assert run.outcome.status == "completed", run.outcome
    assert measured.link is not None
    # Chance had its say.
    assert measured.link.to_client.loss_drops > 5
    assert measured.link.to_client.unasked_drops == 0
    assert run.transfers[0].received == 2_000_000
    assert set(run.captures) == {"left", "right"}
    assert {"client0", "server0"} <= {name for name, drawn in run.random.items() if drawn.bytes > 16}
    assert run.captures == again.captures
    assert run.random == again.random
    assert run.lab_kernel == again.lab_kernel != ""
    assert measured.measurements == measured_again.measurements
    assert run.cpu in ("lab", "host")
    assert (HOST_CPU in run.warnings) is (run.cpu == "host")


def test_another_seed_is_another_run(twice: dict[Pair, list[CellResult]], lossy: Lossy) -> None:
    for pair, result in lossy.run("other", [(name, name) for name in OTHER_SEED], seed=2).items():
        (_, run, measured), (_, stored_run, other_measured) = _only(twice[pair][0]), _only(result)
        assert run.captures != stored_run.captures
        assert not {drawn.digest for drawn in run.random.values()} & {
            drawn.digest for drawn in stored_run.random.values()
        }
        assert measured.value("completion", 0) != other_measured.value("completion", 0)


#: A flow of each kind that share a bottleneck.
MIXED = [
    {**QUIC, "stop": "1500 ms"},
    {"kind": "tcp", "stop": "1500 ms", "parameters": {"server.congestion_control": "cubic"}},
    {"kind": "udp", "stop": "1500 ms", "traffic": POISSON},
]


def test_flows_of_tcp_and_udp_repeat_beside_quic(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("mixed", path=DUMBBELL, flows=MIXED, milestones=[])
    words = ("--engine", "virtual", "--repeat", "1")
    cells = [harness.cell(case, *words, "--fresh", "--no-figures") for _ in range(2)]
    (file,) = harness.store.glob("runs/*/0/run.json")
    (replaced,) = harness.store.glob("runs/*/replaced/*/run.json")
    run, before = (Run.model_validate_json(path.read_bytes()) for path in (file, replaced))
    assert [cell["outcomes"] for cell in cells] == [{"completed": 1}] * 2
    assert run.captures == before.captures
    assert run.random == before.random
    assert len(run.random) == 2 * len(MIXED)


def test_with_the_host_s_processor_what_it_leaks_is_masked(lossy: Lossy, warm: Harness) -> None:
    pairs = [(name, name) for name in ON_HOST_CPU]
    runs = [lossy.run(store, pairs, host_cpu=True) for store in ("host", "host-again")]
    for pair in pairs:
        (cell, run, _), (_, again, _) = (_only(results[pair]) for results in runs)
        assert run.outcome.status == "completed", run.outcome
        assert run.cpu == "host"
        assert HOST_CPU in run.warnings
        assert run.captures == again.captures, pair
        assert run.random == again.random
        # Asked for by name, it is another cell.
        assert cell.key != lossy_key(lossy, pair)


def lossy_key(lossy: Lossy, pair: Pair) -> str:
    """Key of a pair's cell on the lab's processor."""
    app = App(CheckoutPaths(ROOT, lossy.folder, ROOT / ".state", CACHE))
    request = Request(
        app.catalogue.find_scenarios([lossy.file]), [STACKS[pair[0]]], [STACKS[pair[1]]],
        engine="virtual", sim_kernel="lab",
    )  # fmt: skip
    return app.matrix(request, _deaf, pull=False)[0].key


def test_nothing_depends_on_where_and_as_whom_the_harness_runs(
    warm: Harness, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another place for what is cached and for results, another umask, time zone, locale and folder to start from."""
    case = harness.scenario("place")
    words = (case, "--clients", "quiche", "--servers", "nginx", "--repeat", "1", "--engine", "virtual")
    run = Run.model_validate_json((Path(harness.cell(*words)["evidence"][0]) / "run.json").read_bytes())
    cache = tmp_path / "a folder with a longer name" / "cache"
    cache.mkdir(parents=True)
    (cache / "rootfs").symlink_to(CACHE.resolve() / "rootfs")
    (cache / "www").mkdir()
    (cache / "www" / "what was served before").write_text("something else")
    elsewhere = Harness(tmp_path / "elsewhere")
    elsewhere.folder.mkdir()
    environment = {**os.environ, "HARNESS_CACHE": str(cache), "TZ": "Asia/Kolkata", "LC_ALL": "C", "LOGNAME": "other"}
    command = [sys.executable, "-m", "harness.cli", "run", *words, "--store", str(elsewhere.store)]
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, umask=0o077, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr
    (file,) = elsewhere.store.glob("runs/*/0/run.json")
    stored_run = Run.model_validate_json(file.read_bytes())
    assert run.outcome.status == "completed"
    assert stored_run.cell.key == run.cell.key
    assert stored_run.captures == run.captures
    assert stored_run.random == run.random
    plans = [place / "plan" / "world.json" for place in (file.parent, harness.store / "runs" / run.cell.key / "0")]
    assert plans[0].read_text() == plans[1].read_text()


#: What the probe sees of the processor, and what it sees of the machine, on every machine.
EXPECTED = Path(__file__).parent / "cpu" / "expected.txt"


def test_endpoints_see_the_same_processor_on_every_machine(
    warm: Harness, harness: Harness, manifest: Manifest, pytestconfig: pytest.Config
) -> None:
    """Held against a file; `pytest -m lab -k same_processor --snapshot-update` writes it, on a host that can fault."""
    endpoint = App(CheckoutPaths(ROOT, harness.store, ROOT / ".state", CACHE)).images.endpoint.reference
    tag = build_image("quic-lab-test/cpu:1", EXPECTED.parent, "--build-arg", f"ENDPOINT={endpoint}")
    file = manifest("cpu", tag)
    words = ("--clients", "cpu", "--servers", "quic-go", "--manifest", str(file), "--repeat", "1")
    cell = harness.cell(harness.scenario("cpu"), *words, "--engine", "virtual")
    assert "exit code 3" in cell["sentence"], cell["sentence"]
    folder = Path(cell["evidence"][0])
    run = Run.model_validate_json((folder / "run.json").read_bytes())
    # A later point release of the kernel is the next best where there is no other, and calls itself so.
    log = read_bytes(folder / "client0.log").decode().replace(run.sim_kernel.partition(" ")[2], "RELEASE")
    # tc ends its lines with a space.
    seen = "".join(f"{line.rstrip()}\n" for line in log.splitlines())
    if pytestconfig.getoption("update_snapshots") and run.cpu == "lab":
        EXPECTED.write_text(seen)
    expected = EXPECTED.read_text()
    # In the lab kernel an interface lets go of what it sends by itself (images/endpoint/setup.sh).
    assert "machine qdisc noqueue" in seen
    if run.cpu == "host":
        assert HOST_CPU in cell["warnings"]
        seen, expected = (_of_the_machine(text) for text in (seen, expected))
    assert seen == expected
    assert len(seen.splitlines()) > 5


def _of_the_machine(text: str) -> str:
    """What no processor decides: its time stamp counter is answered from virtual time all the same."""
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith(("machine ", "tsc ")))


def test_a_command_says_that_two_runs_of_a_cell_do_not_part(warm: Harness, harness: Harness) -> None:
    """And where two runs that were stored do: with other seeds, nowhere else than from the beginning."""
    case = harness.scenario("divergence", flows=[{"download": "10 kB"}], milestones=["10 kB"])
    command = [sys.executable, "-m", "harness.cli", "divergence"]
    path = harness.folder / "kept"
    process = subprocess.run(
        [*command, case, "--client", "quiche", "--server", "ngtcp2", "--keep", str(path)],
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    assert "identical" in process.stdout
    assert all((path / name / "calls").stat().st_size > 80_000 for name in ("first", "again"))
    pair = ("--clients", "quiche", "--servers", "ngtcp2", "--engine", "virtual")
    cell = harness.cell(case, *pair, "--repeat", "2")
    process = subprocess.run(
        [*command, *cell["evidence"]], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert process.returncode == 1, process.stderr
    assert "repetition: 0 in the first run, 1 in the second" in process.stdout
    assert "left capture: packet " in process.stdout
    assert "random bytes of client0" in process.stdout
