from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from harness.capture import qlog_parameters as module
from harness.capture.qlog import events, read_head, read_recovery
from harness.capture.qlog_parameters import (
    FirstValue,
    Reduction,
    TransportParameters,
    parse_number,
    read_reduction,
    read_settings,
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def lines(*events: object, separator: str = "") -> str:
    return "".join(f"{separator}{json.dumps(event)}\n" for event in events)


NGTCP2 = lines(
    {"qlog_format": "JSON-SEQ", "qlog_version": "0.3", "trace": {"common_fields": {"group_id": "0a0b0c0d0e0f"}}},
    {"time": 0, "name": "transport:parameters_set", "data": {
        "owner": "local", "max_ack_delay": 25, "ack_delay_exponent": 3, "initial_max_data": 1048576,
        "initial_max_stream_data_bidi_local": 0, "initial_max_stream_data_bidi_remote": 262144,
        "max_udp_payload_size": 65527, "max_idle_timeout": 60000, "initial_max_stream_data_uni": 7}},
    {"time": 0, "name": "recovery:metrics_updated", "data": {
        "smoothed_rtt": 333, "latest_rtt": 0, "rtt_variance": 166, "congestion_window": 12000}},
    {"time": 650, "name": "transport:parameters_set", "data": {
        "owner": "remote", "max_ack_delay": 40, "ack_delay_exponent": 5, "initial_max_data": 16777216,
        "initial_max_stream_data_bidi_local": 8388608, "min_ack_delay": 1000}},
    {"time": 1300, "name": "recovery:metrics_updated", "data": {"smoothed_rtt": 650, "congestion_window": 13200}},
    separator="\x1e",
)  # fmt: skip


def test_the_dialect_of_ngtcp2(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path / "a.sqlog", NGTCP2), 650)
    assert settings.local == TransportParameters(25, 3, None, 65527, 60000, 1048576, 0, 262144, 7)
    assert settings.remote == TransportParameters(
        40, 5, 1000, initial_max_data=16777216, initial_max_stream_data_bidi_local=8388608
    )
    assert settings.first_smoothed_rtt_ms == FirstValue(0, 333) and settings.first_congestion_window == FirstValue(
        0, 12000
    )
    assert settings.initial_rtt_ms is None and settings.initial_congestion_window is None
    assert settings.congestion_control is None and settings.max_datagram_size is None
    assert settings.summary.identifies(bytes.fromhex("0a0b0c0d0e0f")) and not settings.summary.identifies(b"\1")


def test_a_later_connection_in_the_same_trace_does_not_count(tmp_path: Path) -> None:
    later = {"time": 9000, "name": "transport:parameters_set", "data": {"owner": "remote", "max_ack_delay": 1,
             "initial_max_stream_data_uni": 5}}  # fmt: skip
    settings = read_settings(write(tmp_path / "a.sqlog", NGTCP2 + lines(later)), 650)
    assert settings.remote is not None and settings.remote.max_ack_delay_ms == 40
    assert settings.remote.initial_max_stream_data_uni == 5


def test_the_new_schema(tmp_path: Path) -> None:
    text = lines(
        {"file_schema": "urn:ietf:params:qlog:file:sequential", "trace": {"common_fields": {"reference_time": {
            "clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": "2026-11-21T00:00:00Z"}}}},
        {"time": 0.001, "name": "quic:recovery_parameters_set", "data": {
            "reordering_threshold": 3, "initial_congestion_window": 40960, "initial_rtt": 100,
            "max_datagram_size": 1280, "congestion_control": "reno"}},
        {"time": 0.002, "name": "quic:parameters_set", "data": {"initiator": "local", "max_ack_delay": 26}},
        {"time": 0.003, "name": "http3:parameters_set", "data": {"initiator": "remote", "max_ack_delay": 1}},
        {"time": 0.004, "name": "quic:parameters_restored", "data": {"initial_max_data": 1}},
        {"time": 0.01, "name": "quic:recovery_metrics_updated", "data": {"bytes_in_flight": 1280}},
        {"time": 650.1, "name": "quic:parameters_set", "data": {"initiator": "remote", "initial_max_data": 786432,
                                                                "tls_cipher": "AES"}},
        {"time": 650.2, "name": "quic:recovery_metrics_updated", "data": {"smoothed_rtt": 650.01}},
    )  # fmt: skip
    settings = read_settings(write(tmp_path / "a.sqlog", text), 650)
    assert settings.local == TransportParameters(max_ack_delay_ms=26)
    assert settings.remote == TransportParameters(initial_max_data=786432)
    assert (settings.initial_rtt_ms, settings.initial_congestion_window, settings.max_datagram_size) == (
        100,
        40960,
        1280,
    )
    assert settings.congestion_control == "reno"
    assert settings.first_congestion_window is None
    early = settings.first_smoothed_rtt_ms
    assert early is not None and early.t_ms == pytest.approx(650.199) and early.value == 650.01
    assert settings.summary.start_ns == 1_795_219_200_000_000_000


def test_the_dialect_of_aioquic(tmp_path: Path) -> None:
    """One line of contained JSON, data first, ms since the epoch, window called cwnd."""
    written = [
        {"data": {"cwnd": 12000, "bytes_in_flight": 0}, "name": "recovery:metrics_updated", "time": 1790000000000.0},
        {"data": {"owner": "local", "initial_max_data": 1048576, "disable_active_migration": False,
                  "stateless_reset_token": "00"}, "name": "transport:parameters_set", "time": 1790000000000.5},
        {"data": {"owner": "remote", "ack_delay_exponent": 3, "max_ack_delay": 25}, "name": "transport:parameters_set",
         "time": 1790000000650.0},
    ]  # fmt: skip
    text = json.dumps({"qlog_format": "JSON", "qlog_version": "0.3", "traces": [{"events": written}]})
    for name, content in (("short", text), ("long", text[:-4] + ', {"x": 0}' * 20_000 + "]}]}")):
        settings = read_settings(write(tmp_path / f"{name}.qlog", content), 650)
        assert settings.local == TransportParameters(initial_max_data=1048576)
        assert settings.remote == TransportParameters(25, 3)
        assert settings.first_congestion_window == FirstValue(0, 12000) and settings.first_smoothed_rtt_ms is None


def test_the_dialect_of_openssl(tmp_path: Path) -> None:
    """Time differences, numbers as strings, only what was on the wire, no metrics."""
    text = lines(
        {"qlog_version": "0.3", "trace": {"common_fields": {"time_format": "delta", "reference_time": 1790000000000}}},
        {"name": "transport:parameters_set", "time": 7, "data": {"owner": "local", "initial_max_data": "786432"}},
        {"name": "transport:parameters_set", "time": 650, "data": {
            "owner": "remote", "initial_max_data": "9007199254740993", "max_ack_delay": 30}},
        {"name": "recovery:metrics_updated", "time": 1, "data": {"congestion_window": 5}},
        separator="\x1e",
    )  # fmt: skip
    settings = read_settings(write(tmp_path / "a.sqlog", text), 650)
    assert settings.local == TransportParameters(initial_max_data=786432)
    assert settings.remote == TransportParameters(max_ack_delay_ms=30, initial_max_data=2.0**53)
    assert settings.first_congestion_window is None  # its time is unknown


PICOQUIC = """{ "qlog_version": "draft-00", "title": "picoquic", "traces": [
{ "vantage_point": { "name": "backend-67", "type": "server" },
"event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"], "configuration": {"time_units": "us"},
"common_fields": { "protocol_type": "QUIC_HTTP3", "reference_time": "11001"}, "events": [
[0, "recovery", "metrics_updated", {"cwnd": 15360,"bytes_in_flight": 0}],
[10, %s"TRANSPORT", "parameters_set", {
    "owner": "remote",
    "proposed_alpn": ["h3", "hq"],
    "initial_max_stream_data_bidi_local" : 2097152,
    "max_packet_size" : 1440,
    "min_ack_delay" : 1000,
    "idle_timeout" : 30000}],
[650000, "RECOVERY", "PACKET_LOST", {"packet_type" : "1RTT"}],
[650001, %s"recovery", "metrics_updated", {"cwnd": 7680,"smoothed_rtt": 651000}]]}]}
"""


@pytest.mark.parametrize("path_id", ["", "0, "])
def test_the_dialect_of_picoquic(tmp_path: Path, path_id: str) -> None:
    """Arrays over several lines, capitals, microseconds, names of an early draft; a path ID with multipath."""
    path = write(tmp_path / "a.qlog", PICOQUIC % (path_id, path_id))
    settings = read_settings(path, 650)
    assert settings.remote == TransportParameters(
        min_ack_delay_us=1000, max_udp_payload_size=1440, max_idle_timeout_ms=30000,
        initial_max_stream_data_bidi_local=2097152,
    )  # fmt: skip
    assert settings.local is None
    assert settings.first_congestion_window == FirstValue(0, 15360)
    assert settings.first_smoothed_rtt_ms == FirstValue(650.001, 651)
    assert read_reduction(path) == Reduction(15360, 7680, 0, True)
    assert read_recovery(path)["smoothed_rtt_ms"].to_list() == [None, 651]
    assert [event.name for event in events(path.read_bytes(), b'parameters_set"')] == ["transport:parameters_set"]


def test_seconds_are_told_from_milliseconds(tmp_path: Path) -> None:
    """quinn writes RTTs in seconds; a small initial RTT before the first sample is none."""
    first = {"time": 0, "name": "recovery:metrics_updated", "data": {"smoothed_rtt": 0.333, "congestion_window": 14720}}
    sample = {"time": 1400, "name": "recovery:metrics_updated", "data": {"smoothed_rtt": 0.651}}
    settings = read_settings(write(tmp_path / "a.qlog", lines(first, sample)), 650)
    assert settings.first_smoothed_rtt_ms is not None and settings.first_smoothed_rtt_ms.value == pytest.approx(333)
    first["data"]["smoothed_rtt"] = 5  # type: ignore[index]
    sample["data"]["smoothed_rtt"] = 651  # type: ignore[index]
    settings = read_settings(write(tmp_path / "b.qlog", lines(first, sample)), 650)
    assert settings.first_smoothed_rtt_ms == FirstValue(0, 5)


def test_odd_traces(tmp_path: Path) -> None:
    nobody = {"time": 0, "name": "transport:parameters_set", "data": {"max_ack_delay": 25}}
    for name, content in (("a", ""), ("b", "nonsense"), ("c", lines(nobody)), ("d", NGTCP2[:400])):
        settings = read_settings(write(tmp_path / name, content), 650)
        assert settings.local is None and settings.remote is None and settings.first_congestion_window is None
        assert read_reduction(tmp_path / name) is None
    (tmp_path / "a.qlog.gz").write_bytes(gzip.compress(NGTCP2.encode()))
    assert read_settings(tmp_path / "a.qlog.gz", 650).local is not None
    (tmp_path / "b.qlog.gz").write_bytes(b"\x1f\x8bnonsense")
    assert read_head(tmp_path / "b.qlog.gz", 100) == b""
    with pytest.raises(OSError):
        read_settings(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3.0), (2.5, 2.5), ("7", 7.0), ("ab", None), (True, None), (None, None), ([1], None), ("0x10", None)],
)
def test_numbers(value: object, expected: float | None) -> None:
    assert parse_number(value) == expected


def updates(*windows: int | str) -> str:
    """Events that give windows, with a loss for every word."""
    return lines(*(
        {"time": i, "name": "recovery:packet_lost", "data": {}} if isinstance(window, str)
        else {"time": i, "name": "recovery:metrics_updated", "data": {"congestion_window": window}}
        for i, window in enumerate(windows)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ((10, 20, "lost", 20, 10, 15, 5), (20, 10, True)),
        ((1000, 2000, "lost", 1990, 995), (1990, 995, True)),  # a rounding is no reduction
        ((1000, 700, 900, "lost", 900, 450), (900, 450, True)),  # nor is one before the first loss its answer
        ((10, 20, 14, 30, 15), (20, 14, False)),
        ((10, 20, "lost", 30), None),
        ((10, 20, 14, "lost", 30), None),
        ((20, 18, 30, 15), (30, 15, False)),  # to smaller datagrams, before it had grown
        ((20, 14), None),
        ((10, 20, 30), None),
        ((), None),
    ],
)
@pytest.mark.parametrize("chunk", [1 << 23, 100])
def test_reductions(
    tmp_path: Path, windows: tuple[int | str, ...], expected: tuple[int, int, bool] | None, chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "_CHUNK", chunk)
    text = updates(*windows)
    reduction = None if expected is None else Reduction(*expected[:2], None, expected[2])
    assert read_reduction(write(tmp_path / "a.sqlog", text)) == reduction
    contained = '{"traces":[{"events":[' + ",".join(text.splitlines()) + "]}]}"
    assert read_reduction(write(tmp_path / "b.qlog", contained)) == reduction
    (tmp_path / "c.sqlog.gz").write_bytes(gzip.compress(text.encode()))
    assert read_reduction(tmp_path / "c.sqlog.gz") == reduction


def test_bytes_in_flight_before_a_reduction(tmp_path: Path) -> None:
    first = '{"time":0,"name":"recovery:metrics_updated","data":{"congestion_window":100,"bytes_in_flight":80}}\n'
    first = first.replace("100", "50") + first
    then = '{"time":1,"name":"recovery:metrics_updated","data":{"congestion_window":56,"bytes_in_flight":70}}\n'
    assert read_reduction(write(tmp_path / "a.sqlog", first + then)) == Reduction(100, 56, 80, False)


def test_the_initial_window_is_not_a_window(tmp_path: Path) -> None:
    text = '{"data":{"initial_congestion_window":90,"minimum_congestion_window":80}}\n' + updates(50, 60)
    assert read_reduction(write(tmp_path / "a.sqlog", text)) is None


def test_reading_ends_when_a_silent_stack_has_shrunk_its_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 1000)
    monkeypatch.setattr(module, "_SILENCE", 3000)
    text = updates(10, 20, 14) + updates(*([15] * 100))
    assert read_reduction(write(tmp_path / "a.sqlog", text + updates("lost", 7))) == Reduction(20, 14, None, False)
    assert read_reduction(write(tmp_path / "b.sqlog", updates(10, 20, 14, "lost", 7))) == Reduction(14, 7, None, True)
