"""The files of a page: what a browser reads in them, and which pages a browser can load."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from harness.catalogue.limits import mistakes
from harness.engine.served_files import served_bytes, served_file
from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError, configure_endpoints
from harness.scenario.schema import Flow, Page
from harness.topology.build import served_folder
from harness.topology.page_files import page_files
from harness.topology.spec import LabFile
from tests.examples import cell, implementation, scenario

OBJECTS: list[dict[str, Any]] = [
    {"name": "html", "type": "document", "size": "2 kB"},
    {"name": "style", "type": "style", "size": "1 kB", "count": 2, "after": "html"},
    {"name": "script", "type": "script", "size": "1 kB", "after": "html"},
    {"name": "font", "type": "font", "size": "1 kB", "count": 2, "after": "style"},
    {"name": "image", "type": "image", "size": "1 kB", "count": 3, "after": "html"},
]


def page(objects: list[dict[str, Any]]) -> Page:
    return Page.model_validate(objects)


def changed(name: str, **changes: Any) -> list[dict[str, Any]]:
    return [{**item, **changes} if item["name"] == name else item for item in OBJECTS]


def browser_cell(flow: dict[str, Any]) -> Cell:
    browser = implementation("alpha", schedules=["h3"], browser=True)
    return cell(scenario(flows=[flow], objectives=[], milestones=[]), browser, implementation("beta"))


def test_a_document_names_what_comes_after_it_and_the_styles_name_the_fonts() -> None:
    files = page_files(page(OBJECTS))
    assert [file.name.rpartition(".")[2] for file in files] == [
        "html", "css", "css", "js", "woff2", "woff2", "png", "png", "png",
    ]  # fmt: skip
    document = files[0].text
    assert re.findall(r"(?:href|src)=(\S+?)(?:>| defer>)", document)[1:] == [
        file.name for file in files if file.name.endswith(("css", "js", "png"))
    ]
    for style in files[1:3]:
        assert re.findall(r"url\((\S+?)\)", style.text) == [file.name for file in files if "woff2" in file.name]
    # A font that no text has is not asked for.
    assert document.count("font-family:") == 2
    assert all(file.is_image for file in files[-3:]) and not any(file.is_image for file in files[:-3])


def test_what_a_browser_reads_is_as_long_as_the_scenario_says(tmp_path: Path) -> None:
    for number, file in enumerate(page_files(page(OBJECTS))):
        content = served_file(tmp_path, file, number).read_bytes()
        assert len(content) == file.size
        assert content.decode().rstrip(" ") == file.text if file.text else True


def _chunks(content: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks of a PNG image, whose checksums are right (ISO/IEC 15948 §5)."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = [], 8
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        name, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", content, at + 8 + length)[0] == zlib.crc32(name + data)
        chunks.append((name, data))
        at += 12 + length
    return chunks


@pytest.mark.parametrize("size", [1000, 20_000])
def test_an_image_is_one_and_nothing_compresses_it(size: int) -> None:
    image, other_image = (b"".join(served_bytes(LabFile(name="i.png", size=size, is_image=True), n)) for n in (1, 2))
    chunks = _chunks(image)
    assert [name for name, _ in chunks] == [b"IHDR", b"quLb", b"IDAT", b"IEND"] and len(image) == size
    # A row of one grey pixel.
    assert len(zlib.decompress(chunks[2][1])) == 2
    assert image != other_image and len(zlib.compress(image)) > 0.97 * size


def test_pages_with_other_files_have_other_folders() -> None:
    folders = {
        served_folder(Flow(page=page(objects))) for objects in (OBJECTS, changed("image", type=None), OBJECTS[:2])
    }
    assert len(folders) == 3


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        (changed("html", type=None), "its first object is no single document"),
        (changed("html", count=2), "its first object is no single document"),
        (changed("image", type=None), "image has no type"),
        (changed("image", type="document"), "image has no type"),
        (changed("image", after="style"), "image does not come after the document alone"),
        (changed("image", after=[]), "image does not come after the document alone"),
        (changed("font", after="html"), "font does not come after styles alone"),
        (changed("script", wait="10 ms"), "script waits"),
        (OBJECTS, ""),
    ],
)
def test_a_browser_loads_what_documents_can_say(objects: list[dict[str, Any]], why: str) -> None:
    assert why in page(objects).not_for_browsers and bool(why) == bool(page(objects).not_for_browsers)
    if why:
        with pytest.raises(UnsupportedError, match=f"alpha is a browser: {why}"):
            configure_endpoints(browser_cell({"page": objects}), 0)
    else:
        configure_endpoints(browser_cell({"page": objects}), 0)


def test_a_browser_follows_no_other_schedule() -> None:
    with pytest.raises(UnsupportedError, match="it asks for nothing by a schedule but pages"):
        configure_endpoints(browser_cell({"requests": {"size": "1 kB", "every": "1 s", "count": 3}}), 0)


def test_a_document_has_room_for_the_names_of_its_objects() -> None:
    small = scenario(flows=[{"page": changed("html", size="100 B")}], objectives=[], milestones=[])
    (mistake,) = mistakes(small)
    assert "names its objects in" in mistake.text and mistake.location[-1] == "page"
