"""A policer that remarks, on the lab kernel in virtual time, with a real transfer."""

from __future__ import annotations

from tests.lab.conftest import Harness


def test_what_exceeds_a_policer_gets_another_dscp(warm: Harness, harness: Harness) -> None:
    """The link proof holds the DSCP of every packet against the token bucket."""
    queue = {"discipline": "policer", "burst": "30 kB", "exceed": {"dscp": 8}}
    link = {"rate": "10 Mbit/s", "delay": "20 ms"}
    path = {"forward": {**link, "queue": queue}, "return": link}
    text = harness.scenario("remarked", path=path, flows=[{"download": "5 MB"}], milestones=[])
    both = ("--clients", "ngtcp2", "--servers", "ngtcp2")
    cell = harness.cell(text, *both, "--engine", "virtual", "--repeat", "1")
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    # Nothing is dropped, so that more passes than the rate.
    value = {name: measurement["median"] for name, measurement in cell["measurements"].items()}
    assert value["queue_drops_to_client"] == 0
    assert value["goodput"] > 10
