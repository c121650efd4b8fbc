"""The scenarios in which clients send files, and those beside which they stand."""

from __future__ import annotations

SOURCE = "Uploads: files from the client to the server"
#: 100 MB up over a medium GEO access, and down over the same access.
MEDIUM, DOWNLOAD = "upload/geo", "satellite/medium"
#: The two at the same time.
BOTH_WAYS = "upload/both-ways"
#: 100 MB up over a small GEO access: sent by the client, and by a server that is placed at the terminal.
SMALL, SERVER_AT_TERMINAL = "upload/geo-small", "satellite/small-upload"
#: 10 MB over a home access.
SHORT = "upload/home"
#: Scenario of uploads alone → the whole, and its path.
PATHS = {
    MEDIUM: ("100 MB", "a GEO access of 50/10 Mbit/s and 650 ms"),
    SHORT: ("10 MB", "a home access of 50/10 Mbit/s and 20 ms"),
}
