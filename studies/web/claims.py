"""The paths on which the page is loaded."""

from __future__ import annotations

SOURCE = "A page of 100 objects, over QUIC and over TCP"
#: Scenario → what its path is.
PATHS = {
    "web/geo": "GEO, 50/10 Mbit/s and 650 ms",
    "web/low-orbit": "a low orbit (profile leo)",
    "web/lte": "LTE (profile lte)",
    "web/wifi": "a home's Wi-Fi (profile wifi)",
    "web/docsis": "cable (profile docsis)",
}
#: The same over TCP that proxies split, beside the scenario whose path it shares.
SPLIT, BESIDE = "web/geo-split", "web/geo"
#: Scenario → how many connections a client shares its files over, beside TCP.
CONNECTIONS = {"dumbbell/connections-1": 1, "dumbbell/connections-2": 2, "dumbbell/connections-6": 6}
