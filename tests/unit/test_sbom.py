"""SBOMs of images: CycloneDX 1.6, the same for the same image."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from harness.engine.images.components import Component, Composition
from harness.engine.images.sbom import sbom_of
from tests.examples import ROOT

COMPOSITION = Composition(
    (
        Component("cargo", "quiche", "0.30.0", digest="b" * 64),
        Component("deb", "libssl3t64", "1:3.5.4-1+b1", "amd64", "openssl 3.5.4-1", "a" * 64),
        Component("deb", "tzdata", "2026b", "all"),
        Component("golang", "example/local", ""),
        Component("golang", "github.com/Quic-go/quic-go", "v0.55.0", digest="h1:x="),
        Component("golang", "stdlib", "1.26.1"),
        Component("pypi", "A.b", "1.0", digest="c" * 64),
        Component("pypi", "A.b", "1.0", digest="d" * 64),
    ),
    {"/usr/local/bin/x": "e" * 64},
    "3-0",
    "debian-13",
)


def parsed(composition: Composition = COMPOSITION) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(sbom_of("quic-lab/quiche:0123", composition))
    return content


def test_it_is_valid_and_the_same_for_the_same_image() -> None:
    text = sbom_of("quic-lab/quiche:0123", COMPOSITION)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    again = "import sys; sys.path.insert(0, '.'); from tests.unit.test_sbom import *; "
    again += "sys.stdout.write(sbom_of('quic-lab/quiche:0123', COMPOSITION))"
    process = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=True, cwd=ROOT)
    assert process.stdout == text
    assert "timestamp" not in parsed()["metadata"]
    assert parsed(replace(COMPOSITION, files={}))["serialNumber"] != parsed()["serialNumber"]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom_of("x:1", Composition((), {}, "3-0"))) is None


def test_purls_hashes_and_properties() -> None:
    known = {item["bom-ref"]: item for item in parsed()["components"]}
    purl = "pkg:deb/debian/libssl3t64@1:3.5.4-1%2Bb1?arch=amd64&distro=debian-13&upstream=openssl%403.5.4-1"
    assert set(known) == {
        purl,
        "pkg:deb/debian/tzdata@2026b?arch=all&distro=debian-13",
        "pkg:cargo/quiche@0.30.0",
        "pkg:golang/example/local",
        "pkg:golang/github.com/quic-go/quic-go@v0.55.0",
        "pkg:golang/stdlib@1.26.1",
        "pkg:pypi/a-b@1.0",
        "pkg:pypi/a-b@1.0#2",
        "file:/usr/local/bin/x",
    }
    assert known[purl]["properties"] == [{"name": "quic-lab:files-sha256", "value": "a" * 64}]
    assert "hashes" not in known[purl]
    for name, digest in (("pkg:cargo/quiche@0.30.0", "b" * 64), ("file:/usr/local/bin/x", "e" * 64)):
        assert known[name]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert parsed()["metadata"]["component"] == {
        "bom-ref": "image", "name": "quic-lab/quiche", "version": "0123", "type": "container",
    }  # fmt: skip
    below = next(item["dependsOn"] for item in parsed()["dependencies"] if item["ref"] == "image")
    assert set(below) == set(known)
