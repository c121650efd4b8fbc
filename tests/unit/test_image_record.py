"""Records of what is in images: written, read, compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engine.images import record as recorded
from harness.engine.images.build import RECORD, Build
from harness.engine.images.components import Component, Composition
from harness.engine.images.record import ImageRecord, base_of, differences, read_record, write_record
from harness.errors import InputError
from harness.report.images import ImageCheck, image_checks_document
from tests.rendering import printed

SSL = Component("deb", "libssl3t64", "3.5.4-1", "amd64", "openssl", "a" * 64)
QUICHE = Component("cargo", "quiche", "0.30.0", digest="b" * 64)
SYN1, SYN2 = (Component("cargo", "syn", version, digest=version[0] * 64) for version in ("1.0", "2.0"))
COMPOSITION = Composition((QUICHE, SYN1, SYN2, SSL), {"/usr/local/bin/x": "c" * 64}, "3-" + "d" * 32, "debian-13")
RECORDED = ImageRecord("bootstrapped", COMPOSITION)


def changed_record(*components: Component, **overrides: Any) -> ImageRecord:
    return ImageRecord("bootstrapped", replace(COMPOSITION, components=tuple(sorted(components)), **overrides))


def test_a_record_is_read_as_it_was_written_with_a_line_for_each_component(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    for record in (RECORDED, ImageRecord("sha256:1", Composition((), {}, "3-0"))):
        file = write_record(tmp_path, record)
        assert read_record(tmp_path) == record
        assert json.loads(file.read_text())["base"] == record.base
    assert [file.name for file in tmp_path.iterdir()] == [RECORD]
    assert len(RECORDED.text().splitlines()) == 10 + len(COMPOSITION.components) + len(COMPOSITION.files)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 2}', RECORDED.text().replace("0.30.0", "0.30.0\x00"), RECORDED.text().replace('"deb"', '"rpm"'),
     RECORDED.text().replace('"bootstrapped"', "7"), RECORDED.text().replace('"kind"', '"sort"'), "[" * 100_000],
)  # fmt: skip
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(InputError, match=f"{RECORD} is no record of an image"):
        read_record(tmp_path)


def test_a_link_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(RECORDED.text())
    (tmp_path / RECORD).symlink_to("elsewhere")
    with pytest.raises(InputError, match="a link, which is not followed"):
        read_record(tmp_path)


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        (RECORDED, []),
        (changed_record(replace(SSL, version="3.5.5-1"), QUICHE, SYN1, SYN2), ["libssl3t64 3.5.4-1 → 3.5.5-1 (deb)"]),
        (
            changed_record(SSL, replace(QUICHE, digest="e"), SYN1, SYN2),
            ["quiche 0.30.0 has other content than recorded (cargo)"],
        ),
        (changed_record(SSL, QUICHE, SYN2), ["syn 1.0 is missing (cargo)"]),
        (changed_record(SSL, QUICHE, SYN1, replace(SYN2, version="2.1")), ["syn 2.0 → 2.1 (cargo)"]),
        (changed_record(SSL, QUICHE, SYN1, SYN2, replace(SYN2, version="3.0")), ["syn 3.0 was added (cargo)"]),
        (
            changed_record(*COMPOSITION.components, files={"/usr/local/bin/x": "0"}),
            ["/usr/local/bin/x has other content"],
        ),
        (changed_record(*COMPOSITION.components, files={"/y": "0"}), ["/usr/local/bin/x is missing", "/y was added"]),
        (
            changed_record(*COMPOSITION.components, contents="3-0"),
            ["other files differ than those of components and programs"],
        ),
        (replace(RECORDED, base="sha256:1"), ["the base is another: bootstrapped → sha256:1"]),
        (replace(RECORDED, base="unknown"), []),
    ],
)
def test_what_differs_is_said_a_line_each(now: ImageRecord, lines: list[str]) -> None:
    assert differences(RECORDED, now) == lines


def image(*layers: str, label: str = "", digests: tuple[str, ...] = ()) -> dict[str, Any]:
    labels = {"org.quic-lab.image": label} if label else None
    return {"Id": "sha256:9", "RootFS": {"Layers": list(layers)}, "Config": {"Labels": labels}, "RepoDigests": digests}


def test_what_an_image_was_built_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE} AS build\nFROM ${BASE}\n")
    build = Build("x", tmp_path, 1)
    here: dict[str, Any] = {build.reference: image("a", "b", label="1")}
    monkeypatch.setattr(recorded, "inspect_image", here.get)
    assert base_of(build) == "unknown"
    here["debian:trixie-slim"] = image("a", label="1")
    assert base_of(build) == "bootstrapped"
    here["debian:trixie-slim"] = image("a", digests=("debian@sha256:1234",))
    assert base_of(build) == "sha256:1234"
    here["debian:trixie-slim"] = image("other", digests=("debian@sha256:1234",))
    assert base_of(build) == "unknown"
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE} AS build\nFROM scratch\n")
    build = Build("x", tmp_path, 1)
    here[build.reference] = image("c")
    assert base_of(build) == "sha256:1234"
    assert base_of(replace(build, upstream="registry.example/x@sha256:5678")) == "sha256:5678"


def test_lines_and_json_of_a_check() -> None:
    checked = {
        "quiche": ImageCheck("quic-lab/quiche:1", True, ["libssl3t64 3.5.4-1 → 3.5.5-1 (deb)", "/x was added"]),
        "quinn": ImageCheck("quic-lab/quinn:1", True, []),
        "curl": ImageCheck("quic-lab/curl:1", False, []),
    }
    document = image_checks_document(checked)
    assert printed(document).splitlines() == [
        "quiche: libssl3t64 3.5.4-1 → 3.5.5-1 (deb)",
        "quiche: /x was added",
        "quinn: as recorded",
        "curl: no record yet: 'harness images curl --record' writes it",
    ]
    assert [item["as_recorded"] for item in document.data["images"]] == [False, True, False]
