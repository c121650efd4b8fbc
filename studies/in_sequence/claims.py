"""The document's proxies and objectives, and the paths that are tried here."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "N. Kuhn, Updates on QUIC Over In-sequence Paths with Different Characteristics (CNES slides)"
SIZES = ("2MB", "10MB", "100MB")
#: The document's proxies: name → (tcp_wmem, tcp_rmem, initial windows), in the words of results.
PROXIES = {
    "A": ("4 MB", "6 MB", "10"),
    "B": ("4 MB", "6 MB", "100"),
    "C": ("33 MB", "33 MB", "10"),
    "D": ("33 MB", "33 MB", "100"),
}
#: What the document says of QUIC's pairs.
ONLY = "only picoquic with picoquic meets the objectives"
#: Servers of the document that are not run here, and why.
NOT_RUN = {"h2o": "it comes from its repository alone, which could not be reached when these runs were made"}


@dataclass(frozen=True)
class Path:
    """One path of the study."""

    name: str
    title: str
    tcp: str
    """Scenario of bulk TCP without a proxy."""
    tcp_settings: str
    """The same, with the proxies' settings at both ends; empty where there is none."""
    tcp_split: str
    https: str
    https_split: str
    quic: str
    statement: str
    """What the document says of it."""

    @property
    def scenarios(self) -> tuple[str, ...]:
        """All of them."""
        every = (self.tcp, self.tcp_settings, self.tcp_split, self.https, self.https_split, self.quic)
        return tuple(filter(None, every))


def _path(name: str, title: str, text: str) -> Path:
    folder = "in-sequence"
    return Path(
        name,
        title,
        f"{folder}/tcp-{name}",
        f"{folder}/tcp-{name}-settings",
        f"{folder}/split-{name}",
        f"{folder}/https-{name}",
        f"{folder}/https-split-{name}",
        f"{folder}/quic-{name}",
        text,
    )


MEDIUM = _path(
    "medium", "50/10 Mbit/s", "With the proxies the channel's capacity is reached and transmission is faster."
)
LARGE_LOSSY = _path(
    "large-lossy",
    "250/3 Mbit/s, 1 % loss behind the second proxy",
    "As on 50/10 Mbit/s, and losses are recovered on the spot.",
)
WIFI = Path(
    "wifi",
    "the internet, a satellite and Wi-Fi",
    "in-sequence/wifi-tcp",
    "",
    "in-sequence/wifi-split",
    "in-sequence/wifi-https",
    "in-sequence/wifi-https-split",
    "in-sequence/wifi-quic",
    "A slide without figures: complex for end-to-end protocols.",
)
