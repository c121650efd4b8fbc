"""The rungs of the video's ladder."""

from __future__ import annotations

SOURCE = "A video over a small GEO access"
#: Scenario → rate of the video, Mbit/s; from the lowest rung.
RUNGS = {"media/video-sd": 2.5, "media/video-hd": 5.0, "media/video-uhd": 8.0}
#: Sources that are not bulk: scenario → what it is.
SOURCES = {
    "media/on-off": "1 MB every 4 s",
    "media/app-limited": "25 kB every 20 ms, 10 Mbit/s",
}
#: A call, alone and beside a load.
CALL_ALONE, CALL = "media/call-alone", "media/call"
