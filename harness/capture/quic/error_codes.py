"""Names of the error codes of CONNECTION_CLOSE (RFC 9000 §20, RFC 9001 §4.8, RFC 9114 §8.1, RFC 9204 §6)."""

from __future__ import annotations

from harness.capture.quic.frames import CloseFrame

#: Codes of the transport (RFC 9000 §20.1).
_NAMES = {
    0x01: "INTERNAL_ERROR",
    0x02: "CONNECTION_REFUSED",
    0x03: "FLOW_CONTROL_ERROR",
    0x04: "STREAM_LIMIT_ERROR",
    0x05: "STREAM_STATE_ERROR",
    0x06: "FINAL_SIZE_ERROR",
    0x07: "FRAME_ENCODING_ERROR",
    0x08: "TRANSPORT_PARAMETER_ERROR",
    0x09: "CONNECTION_ID_LIMIT_ERROR",
    0x0A: "PROTOCOL_VIOLATION",
    0x0B: "INVALID_TOKEN",
    0x0C: "APPLICATION_ERROR",
    0x0D: "CRYPTO_BUFFER_EXCEEDED",
    0x0E: "KEY_UPDATE_ERROR",
    0x0F: "AEAD_LIMIT_REACHED",
    0x10: "NO_VIABLE_PATH",
}
#: TLS's alerts (RFC 9001 §4.8), and the codes of HTTP/3 and QPACK (RFC 9114 §8.1, RFC 9204 §6) and small ones.
_ALERTS, _APPLICATION = range(0x100, 0x200), {*range(0x100, 0x111), *range(0x200, 0x203), *range(0x20)}
#: Codes that close without an error: NO_ERROR (RFC 9000 §20.1), H3_NO_ERROR (RFC 9114 §8.1), and HTTP/0.9's 0.
_CLEAN_CODES = {True: {0}, False: {0, 0x100}}


def is_plausible_close(close: CloseFrame) -> bool:
    """Whether its code is one that endpoints send, and its reason phrase is printable.

    The first bytes of a datagram do not show that it was decrypted correctly: a stateless reset (RFC 9000 §10.3) may
    look like a close with any code and any reason.
    """
    assigned = close.code in _NAMES or close.code in _ALERTS if close.by_transport else close.code in _APPLICATION
    reason = close.reason.decode(errors="replace")
    return (assigned or is_clean_close(close)) and reason.isprintable()


def is_clean_close(close: CloseFrame) -> bool:
    """Whether it ends a connection without an error."""
    return close.code in _CLEAN_CODES[close.by_transport]


def error_name(code: int, *, by_transport: bool) -> str:
    """The name of a code: FLOW_CONTROL_ERROR, CRYPTO_ERROR 0x128, application error 0x101."""
    if not by_transport:
        return f"application error {code:#x}"
    return "NO_ERROR" if code == 0 else _NAMES.get(code, f"CRYPTO_ERROR {code:#x}")
