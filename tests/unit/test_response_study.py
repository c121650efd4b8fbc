"""Windows under random loss: the RFCs' formulas, and what the page makes of runs."""

from __future__ import annotations

import pytest

from studies.response.claims import cubic_window, reno_window
from studies.response.figures import window_ratios
from studies.response.page import response
from tests.unit.study_results import results_of, table_cells


def test_windows_are_those_of_the_rfcs() -> None:
    # RFC 9438 §5.1, tables 1 and 2: round trips of 0.1 s and of 0.01 s.
    assert reno_window(0.01) == pytest.approx(12, abs=0.5)
    assert reno_window(0.001) == pytest.approx(38, abs=1)
    assert cubic_window(1e-4, 0.1) == pytest.approx(187, abs=1)
    # Where Reno's window is the larger, CUBIC has it.
    assert cubic_window(0.01, 0.1) == reno_window(0.01)
    assert cubic_window(1e-6, 0.01) == pytest.approx(1225, abs=1)
    assert reno_window(0.01, 0.7) / reno_window(0.01) == pytest.approx(1.374, abs=0.001)


def test_a_window_stands_beside_its_rfc_s() -> None:
    # 36,600 datagrams in 300 s are 12.2 in a round trip of 100 ms, which is Reno's window at 1 %.
    runs = [
        result
        for server, packets, queue_drops in (("quic-go", 36_600, 0), ("nginx", 73_200, 400))
        for result in results_of(
            "loss/response-100ms",
            "quinn",
            server,
            {"packets_to_client": packets},
            path={"queue_drops_to_client": queue_drops, "loss_drops_to_client": packets / 100},
        )
        if result.cell.scenario.path.to_client.mean_loss == pytest.approx(0.01)
    ]
    page = response(runs)
    assert table_cells(page, "RFC")[1:] == ["12.2"]
    assert table_cells(page, "quic-go")[1:] == ["12.2 (1.00)"]
    assert table_cells(page, "nginx")[1:] == ["24.4 (**1.99**)†"]
    # Who is apart has its reason, and nobody else.
    assert "* nginx: it grows by 65,527 bytes" in page and "* quic-go" not in page
    assert "Reno: 1 of 2 servers stay within 20% of RFC 5681 wherever they ran: quic-go." in page
    assert "Reno: nginx with 1.99 times it (100 ms, 1.0%) is furthest from it." in page
    drawn = window_ratios(runs)
    assert drawn is not None
    values = {row["row"]: row["value"] for rows in drawn["datasets"].values() for row in rows if "case" in row}
    assert values == {"quic-go (reno)": pytest.approx(1, abs=0.01), "nginx (reno)": pytest.approx(1.99, abs=0.01)}
    assert "No runs are stored." in response([])
