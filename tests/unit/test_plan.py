from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.execution.matrix import Request, build_matrix, plan_runs
from harness.outcome import EngineName
from harness.scenario.schema import Flow
from harness.store.identity import with_key
from harness.topology import build_lab
from harness.units import Duration, Size
from tests.examples import SIM, cell, images, implementation, scenario


def _request(**overrides: object) -> Request:
    contestants = [implementation(name) for name in ("alpha", "beta", "gamma")]
    return Request([scenario()], contestants, contestants, **overrides)  # type: ignore[arg-type]


def test_the_matrix_is_complete_and_its_keys_differ() -> None:
    cells = build_matrix(_request(), images("alpha", "beta", "gamma"), SIM)
    assert {(item.client.name, item.server.name) for item in cells} == {
        (a, b) for a in ("alpha", "beta", "gamma") for b in ("alpha", "beta", "gamma")
    }
    assert len({item.key for item in cells}) == 9


@given(repetitions=st.integers(1, 6))
def test_repetitions_interleave(repetitions: int) -> None:
    cells = build_matrix(_request(), images("alpha", "beta", "gamma"), SIM)
    planned = plan_runs(cells, repetitions)
    assert [item.repetition for item in planned] == [n for n in range(repetitions) for _ in cells]
    assert len({(item.cell.key, item.repetition) for item in planned}) == len(planned)


def test_each_value_of_a_parameter_is_a_cell() -> None:
    cells = build_matrix(
        _request(vary={"server.congestion_control": ["reno", "cubic"]}), images("alpha", "beta", "gamma"), SIM
    )
    assert len(cells) == 18
    assert len({item.key for item in cells}) == 18


def test_the_key_changes_with_what_changes_the_run() -> None:
    base = cell()
    lossy = scenario(
        path={
            "forward": {"rate": "50 Mbit/s", "delay": "325 ms", "loss": "1 %"},
            "return": {"rate": "10 Mbit/s", "delay": "325 ms"},
        }
    )
    repeated = scenario(flows=[Flow(download=Size.parse("10 MB"), repeat_after=Duration.parse("10 s"))])
    different = [
        cell(lossy),
        cell(seed=2),
        cell(sim_kernel="lab"),
        cell(parameters={"server.congestion_control": "reno"}),
        cell(client=implementation("gamma")),
        cell(repeated, client=implementation("alpha", session=True)),
        cell(repeated),
        with_key(base.model_copy(update={"engine_code": "other"})),
        cell(client=implementation("alpha", protocols=("hq-interop",))),
    ]
    keys = {item.key for item in different}
    assert base.key not in keys
    assert len(keys) == len(different)


def test_the_key_stays_when_only_words_and_judgements_change() -> None:
    base = cell()
    cells = [
        cell(scenario(title="other words", name="test/renamed")),
        cell(scenario(objectives=[])),
        cell(scenario(repetitions=9)),
        cell(client=implementation("alpha", colour="#123456", notes="n")),
        # Nothing is remembered where nothing is repeated.
        cell(client=implementation("alpha", session=True)),
    ]
    assert {item.key for item in cells} == {base.key}


def test_the_host_s_processor_is_another_cell_in_virtual_time_and_nothing_in_real_time() -> None:
    contestants = images("alpha", "beta", "gamma")

    def keys(engine: EngineName, *, host_cpu: bool) -> set[str]:
        return {item.key for item in build_matrix(_request(engine=engine), contestants, SIM, host_cpu=host_cpu)}

    assert not keys("virtual", host_cpu=False) & keys("virtual", host_cpu=True)
    assert keys("compose", host_cpu=False) == keys("compose", host_cpu=True)
    tested_cell = build_matrix(_request(engine="virtual"), contestants, SIM, host_cpu=True)[0]
    assert build_lab(tested_cell, 0).host_cpu
