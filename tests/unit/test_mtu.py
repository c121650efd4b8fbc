"""The MTU of a path in all that is made from it."""

from __future__ import annotations

import pytest
from simulator.ports import _own

from harness.engine.compose_file import compose_document
from harness.engine.images.rootfs_export import RootFs
from harness.engine.virtual.guest_config import world_document
from harness.topology import Lab, build_lab
from tests.examples import cell, path, scenario

OPTION = "com.docker.network.driver.mtu"


def lab(mtu: int) -> Lab:
    return build_lab(cell(scenario(path=path(mtu=mtu))), 0)


def test_both_networks_of_containers_have_it() -> None:
    networks = compose_document(lab(1280))["networks"]
    assert [network["driver_opts"][OPTION] for network in networks.values()] == ["1280", "1280"]
    assert not any(OPTION in network["driver_opts"] for network in compose_document(lab(1500))["networks"].values())


@pytest.mark.parametrize("mtu", [1280, 1500])
def test_both_endpoints_in_virtual_time_have_it(mtu: int) -> None:
    built_lab = lab(mtu)
    image = RootFs("alpha:1", "sha256:1", "sha256:1", "/exported/alpha", ["/run"], [], "/", "", 15)
    world = world_document(built_lab, {host.name: image for host in built_lab.hosts}, 1000)
    assert world["mtu"] == mtu
    commands = _own({"eth0": ["193.167.0.100/24", "fd00:cafe:cafe:0::100/64"]}, world["mtu"])
    assert ["ip", "link", "set", "dev", "eth0", "mtu", str(mtu), "up"] in commands


def test_the_simulators_interfaces_have_it() -> None:
    for mtu, expected in ((1280, ["left", "right"]), (1500, [])):
        setup = lab(mtu).simulators[0].program.setup
        assert [command[4] for command in setup if command[5:] == ("mtu", str(mtu))] == expected
