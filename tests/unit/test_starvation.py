"""Who waited for a processor: counted by the kernel, sampled, measured and judged."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from harness.analysis.metrics import measure
from harness.analysis.metrics.starvation import CAUTION, STARVED
from harness.capture.counters import MACHINE, cores_during_wait, read_waits, wait_time
from harness.engine.docker.sampler import CpuWaits, Sampler, stolen_ns
from harness.errors import EngineError
from harness.execution import Options
from harness.execution.matrix import PlannedRun
from harness.execution.retries import RunMaker
from harness.execution.runner import server_wait, with_start
from harness.outcome import MeasuredRun, Outcome, Run, proven_outcome
from harness.store.provenance import Provenance
from harness.topology import LOADED_WAIT, SERVER_WAIT, build_lab, digest_content, sim_plan
from tests.examples import cell
from tests.measurements import by_name
from tests.unit.captures import Recipe, write_run

S = 10**9


class Machine:
    """Made-up files of the kernel: a control group and its threads."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"
        self.cgroup.mkdir()
        self.waiting = CpuWaits(self.cgroup, self.proc)

    def threads(self, file: str = "tasks", **delays: int) -> None:
        """Threads by number, each with what it waited so far, ns."""
        (self.cgroup / file).write_text("".join(f"{number[1:]}\n" for number in delays))
        for number, delay in delays.items():
            place = self.proc / number[1:]
            place.mkdir(parents=True, exist_ok=True)
            (place / "schedstat").write_text(f"{2 * delay} {delay} 9\n")
            self.state(number, "S")

    def state(self, number: str, letter: str) -> None:
        (self.proc / number[1:] / "stat").write_text(f"{number[1:]} (a) name) {letter} 1 1\n")

    def look(self, seconds: float) -> dict[str, int]:
        return dict(self.waiting.look(round(seconds * S)))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_threads_that_come_and_go_are_added_up(machine: Machine) -> None:
    machine.threads(t1=100, t2=50)
    assert machine.look(0) == {"run_delay": 150, "longest": 100, "stopped": 0}
    machine.threads(t2=70, t3=5)
    sums = machine.look(1)
    assert sums["run_delay"] == 100 + 70 + 5
    # t2 waited 20 more, and t3 5.
    assert sums["longest"] == 100 + 20
    # A number is given again.
    machine.threads(t2=70, t3=2)
    assert machine.look(2)["run_delay"] == 100 + 70 + 5 + 2
    machine.threads()
    assert machine.look(3) == {}


def test_pressure_is_read_where_there_is_some(machine: Machine) -> None:
    machine.threads("cgroup.threads", t1=1)
    (machine.cgroup / "cpu.pressure").write_text(
        "some avg10=1.00 avg60=0.00 avg300=0.00 total=4711\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"
    )
    assert machine.look(0)["pressure"] == 4_711_000


def test_a_stop_lasts_from_one_look_to_the_next(machine: Machine) -> None:
    machine.threads(t1=1)
    for seconds, letter, stopped in (
        (0, "T", 0),
        (1, "T", 0),
        (2, "T", 1),
        (2.5, "T", 1.5),
        (3, "S", 1.5),
        (4, "S", 1.5),
    ):
        machine.state("t1", letter)
        assert machine.look(seconds)["stopped"] == stopped * S
    # Whoever ran meanwhile was not stopped.
    machine.state("t1", "T")
    machine.look(5)
    machine.threads(t1=2)
    machine.state("t1", "T")
    assert machine.look(6)["stopped"] == 1.5 * S


def test_this_machine_s_own_figures(tmp_path: Path) -> None:
    """The kernel's files are as the code takes them to be."""
    (tmp_path / "tasks").write_text(f"{threading.get_native_id()}\n")
    waiting = CpuWaits(tmp_path)
    before = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    sums = dict(waiting.look(1))
    after = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    assert before <= sums["run_delay"] <= after
    assert (stolen_ns() or 0) >= 0


def test_the_sampler_writes_who_waits(tmp_path: Path) -> None:
    sampler = Sampler(tmp_path, 1 << 30)
    sampler.watch_process("client0", os.getpid())
    sampler.start()
    sampler.stop()
    frame = read_waits(tmp_path / "waits.csv")
    assert set(frame.columns) == {"t_ns", "container", "kind", "ns"}
    assert (MACHINE, "steal") in set(frame.select("container", "kind").iter_rows())


def test_growth_within_a_span(tmp_path: Path) -> None:
    rows = [(0, 5), (1, 10), (2, 30), (3, 4), (4, 6), (5, 99)]
    file = tmp_path / "waits.csv"
    file.write_text("t_ns,container,kind,ns\n" + "".join(f"{t},sim,run_delay,{ns}\n" for t, ns in rows) + "6,sim,ru")
    frame = read_waits(file)
    wait = wait_time(frame, "sim", "run_delay", 1, 4)
    # At 3 it was another container's.
    assert wait is not None
    assert (wait.ns, wait.sampled_ns, wait.share) == (20 + 4 + 2, 3, 26 / 3)
    assert wait_time(frame, "sim", "run_delay", 5, 9) is None
    assert wait_time(frame, "sim", "pressure", 1, 4) is None


# --- judged


@pytest.fixture(scope="module")
def download(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    folder = tmp_path_factory.mktemp("run")
    run = write_run(folder, Recipe(packets=300, size=300_000))
    return folder, run.model_copy(update={"host": {"cpus": 2}})


def _measured(download: tuple[Path, Run], shares: dict[tuple[str, str], float], until: float = 1.0) -> MeasuredRun:
    """With samples up to a part of the transfer, whose sums grow by so much a second."""
    folder, run = download
    transfer = run.transfers[0]
    span = transfer.ended_ns - transfer.started_ns
    lines = ["t_ns,container,kind,ns"]
    for step in range(41):
        at = round(step * span / 40 * until)
        lines += [
            f"{transfer.started_ns + at},{who},{kind},{round(at * share)}" for (who, kind), share in shares.items()
        ]
    (folder / "waits.csv").write_text("\n".join(lines) + "\n")
    return measure(folder, run)


BETWEEN = (STARVED + CAUTION) / 2


@pytest.mark.parametrize(
    ("who", "kind", "share", "judged"),
    [
        ("client0", "longest", 0.9 * CAUTION, ""),
        ("client0", "longest", BETWEEN, "caution"),
        ("client0", "longest", 1.1 * STARVED, "starved"),
        ("server0", "pressure", 1.1 * STARVED, "starved"),
        ("sim", "longest", 1.1 * STARVED, "starved"),
        ("server0", "stopped", 1.1 * STARVED, "starved"),
        ("machine", "steal", 2 * 1.1 * STARVED, "starved"),
        ("machine", "steal", 2 * BETWEEN, "caution"),
    ],
)
def test_whoever_waited_too_long_was_starved(
    download: tuple[Path, Run], who: str, kind: str, share: float, judged: str
) -> None:
    usual = {(name, "longest"): 0.0 for name in ("client0", "server0", "sim") if (name, kind) != (who, "pressure")}
    measured = _measured(download, usual | {(who, kind): share})
    warnings = [text for text in measured.warnings if "counts for nothing" in text]
    assert (len(measured.starved), len(warnings)) == {"": (0, 0), "caution": (0, 1), "starved": (1, 0)}[judged]
    outcome = proven_outcome(download[1], measured)
    assert outcome.reason == ("starved" if judged == "starved" else "")
    assert outcome.passing is (judged == "starved")
    if judged == "starved":
        assert outcome.status == "infrastructure"
        assert "--engine virtual" in outcome.detail
        assert ("hypervisor" if who == "machine" else who) in outcome.detail


def test_what_was_measured(download: tuple[Path, Run]) -> None:
    sums = {("client0", "longest"): 0.03, ("server0", "pressure"): 0.02, ("server0", "longest"): 0.01}
    value = by_name(_measured(download, sums | {(MACHINE, "steal"): 0.04}))
    assert value["waiting_client"] == pytest.approx(0.03)
    assert value["waiting_server"] == pytest.approx(0.01)
    assert value["pressure_server"] == pytest.approx(0.02)
    assert value["steal"] == pytest.approx(0.02), "of two processors"


def test_samples_of_too_small_a_part_do_not_speak_for_it(download: tuple[Path, Run]) -> None:
    measured = _measured(download, {(name, "longest"): 1.0 for name in ("client0", "server0", "sim")}, until=0.4)
    assert measured.starved == ()
    assert {absence.metric for absence in measured.absent} >= {"waiting_client", "waiting_server", "waiting_sim"}


def test_runs_before_it_was_recorded_are_judged_as_they_were(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=300, size=300_000))
    measured = measure(tmp_path, run)
    assert measured.starved == () and not any("waits" in text for text in measured.warnings)
    crashed = replace_outcome(run, "crashed")
    starved = measured.model_copy(update={"starved": ("client0 waited",)})
    assert proven_outcome(crashed, starved).status == "crashed"


def replace_outcome(run: Run, status: str) -> Run:
    return run.model_copy(update={"outcome": run.outcome.model_copy(update={"status": status})})


def _without_answer(
    download: tuple[Path, Run],
    shares: dict[tuple[str, str], float],
    folder: Path,
    cpu: float,
    seconds: int,
    idle: float,
) -> tuple[MeasuredRun, Outcome]:
    """What is measured where no server answered within 15 s, of which so many were sampled."""
    rows = [
        f"{second * S},{who},{kind},{round(second * S * share)}"
        for second in range(seconds + 1)
        for (who, kind), share in shares.items()
    ]
    (folder / "waits.csv").write_text("\n".join(["t_ns,container,kind,ns", *rows]) + "\n")
    used = [f"{second * S},server0,{round(cpu * S * (second + 1) / (seconds + 1))},0" for second in range(seconds + 1)]
    (folder / "cpu.csv").write_text("\n".join(["t_ns,container,cpu_ns,rcvbuf_errors", *used]) + "\n")
    (folder / "server0.log").write_text("loading classes\n\n")
    detail = "no answer from 10.0.0.2 port 443 within 15 s"
    outcome = with_start(Outcome(status="crashed", role="server", reason="no_answer", detail=detail), folder, 1)
    assert outcome.detail == f"{detail}; server0 had {cpu:g} s of CPU time; its log ends with “loading classes”"
    update = {"outcome": outcome, "transfers": (), "host": {"cpus": 2, "idle": idle}}
    run = download[1].model_copy(update=update)
    measured = measure(folder, run)
    return measured, proven_outcome(run, measured)


@pytest.mark.parametrize(
    ("who", "kind", "share", "status"),
    [
        ("server0", "longest", 0.9 * STARVED, "crashed"),
        ("server0", "longest", 1.1 * STARVED, "infrastructure"),
        ("sim", "pressure", 1.1 * STARVED, "infrastructure"),
        ("machine", "steal", 2 * 1.1 * STARVED, "infrastructure"),
        ("client0", "longest", 1.1 * STARVED, "crashed"),
    ],
)
def test_a_server_that_starts_without_a_processor_did_not_crash(
    download: tuple[Path, Run], tmp_path: Path, who: str, kind: str, share: float, status: str
) -> None:
    measured, outcome = _without_answer(download, {(who, kind): share}, tmp_path, 5, 15, 0.0)
    assert outcome.status == status
    assert bool(measured.starved) is outcome.passing is (status == "infrastructure")
    assert outcome.detail.startswith("no answer from 10.0.0.2 port 443 within 15 s; server0 had 5 s of CPU time")


@pytest.mark.parametrize(
    ("cpu", "idle", "status"), [(3, 0.01, "infrastructure"), (9, 0.01, "crashed"), (3, 0.3, "crashed")]
)
def test_a_start_that_was_hardly_sampled_is_judged_by_the_machine(
    download: tuple[Path, Run], tmp_path: Path, cpu: float, idle: float, status: str
) -> None:
    """Compose returns late on a loaded machine, and only then the samples begin."""
    _, outcome = _without_answer(download, {("server0", "longest"): 1.0}, tmp_path, cpu, 2, idle)
    assert outcome.status == status
    assert (
        status == "crashed" or "a server had 3 s of CPU time, while the processors were idle for 1%" in outcome.detail
    )


def test_a_server_may_take_longer_where_more_wants_to_run_than_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for load, seconds in ((0.3, SERVER_WAIT), (2.0, SERVER_WAIT), (2.1, LOADED_WAIT)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 9.0, 9.0))
        assert server_wait() == seconds
    # The engine has no more patience, and no digest of a cell depends on the machine.
    assert SERVER_WAIT < LOADED_WAIT < 45
    lab = build_lab(cell(), 0)
    assert digest_content(lab)["simulators"][0]["plan"]["wait_seconds"] == SERVER_WAIT
    loaded = lab.model_copy(update={"server_wait": LOADED_WAIT})
    assert sim_plan(loaded, loaded.simulators[0])["wait_seconds"] == LOADED_WAIT


@pytest.mark.parametrize(("patience", "seconds"), [(300.0, LOADED_WAIT), (0.0, SERVER_WAIT)])
def test_without_patience_the_wait_is_the_same_on_every_machine(
    monkeypatch: pytest.MonkeyPatch, patience: float, seconds: float
) -> None:
    """The files of two runs can be compared then, as golden labs of the compose engine are."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (9.0, 9.0, 9.0))
    waits: list[float] = []

    def run_once(*words: object) -> None:
        waits.append(cast(float, words[-1]))
        raise EngineError("it is not to be run")

    monkeypatch.setattr("harness.execution.retries.run_once", run_once)
    given: Any = None
    maker = RunMaker(given, given, given, Options(patience=patience), given, Provenance(), lambda event: None)
    with pytest.raises(EngineError):
        maker.run(PlannedRun(cell(), 0))
    assert waits == [seconds]


@pytest.mark.parametrize(
    ("waits", "cores", "idle", "words", "own"),
    [
        ("server0", {"server0": 1.9, "client0": 0.1}, 0.0, "server0 itself used both processors (1.9 of 2)", True),
        ("client0", {"server0": 1.7, "client0": 0.1}, 0.0, "while server0 used both processors (1.7 of 2)", True),
        ("sim", {"server0": 1.0, "client0": 0.7}, 0.0, "the lab used 1.7 of 2 processors, server0 1.0 of them", True),
        ("server0", {"server0": 0.5, "client0": 0.2}, 0.0, "itself 0.5 of them, and others on this machine", False),
        # Threads can wait for each other on processors that are idle in between.
        ("sim", {"server0": 0.7, "client0": 0.5}, 0.3, "0.7 of them, and they were idle for 30% of the run (", True),
        ("sim", {"server0": 0.7, "client0": 0.5}, 0.15, "idle for 15% of the run, and others on this machine", False),
        ("server0", {}, 0.3, "", False),
    ],
)
def test_own_load_is_told_from_that_of_others(
    download: tuple[Path, Run], waits: str, cores: dict[str, float], idle: float, words: str, own: bool
) -> None:
    folder, run = download
    run = run.model_copy(update={"host": {**run.host, "idle": idle}})
    start = run.transfers[0].started_ns
    rows = [
        f"{start + step * S // 2},{name},{round(step * S // 2 * used)},0"
        for step in range(-2, 40)
        for name, used in cores.items()
    ]
    (folder / "cpu.csv").write_text("\n".join(["t_ns,container,cpu_ns,rcvbuf_errors", *rows]) + "\n")
    (sentence,) = _measured((folder, run), {(waits, "longest"): 1.1 * STARVED}).starved
    (folder / "cpu.csv").unlink()
    assert words in sentence
    assert ("a quieter machine changes nothing" in sentence) is own
    assert ("end what else runs" in sentence) is not own


def test_processors_count_by_the_wait_meanwhile() -> None:
    """A server is idle for a second, and uses both processors for another, in which it waits."""
    waits = pl.DataFrame({"t_ns": [0, S, 2 * S], "container": "server0", "kind": "longest", "ns": [0, 0, S // 2]})
    cpu = pl.DataFrame({"t_ns": [0, S, 2 * S], "container": "server0", "cpu_ns": [0, 0, 2 * S]})
    assert cores_during_wait(waits, cpu, "server0", "longest", 0, 2 * S) == {"server0": 2.0}
    assert cores_during_wait(waits, cpu, "server0", "longest", 0, S) == {}
