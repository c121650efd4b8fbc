"""What the slides say: N. Kuhn (CNES), picoquic and h2o servers, picoquic and curl clients, against objectives."""

from __future__ import annotations

SOURCE = "N. Kuhn, Updates on QUIC over in-sequence paths with different characteristics"
#: Scenario → what the document says of it.
CLAIMS = {
    "satellite/medium": "only picoquic with picoquic meets them; the h2o server does not, the curl client never does",
    "satellite/large": "not measured",
    "satellite/large-lossy": "only picoquic with picoquic meets them",
}
#: All of it in three sentences.
CLAIM = (
    "The document behind these cases is N. Kuhn, *Updates on QUIC over in-sequence paths with different "
    "characteristics*.\nIt has picoquic and curl clients, and picoquic and h2o servers. Only a picoquic client with a "
    "picoquic server\nmeets its objectives."
)
