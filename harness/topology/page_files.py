"""The files of a page: a document that names its objects, styles that name the fonts, and bytes."""

from __future__ import annotations

from collections.abc import Sequence

from harness.scenario.schema import Page, ScheduledRequest
from harness.scenario.schema.requests import EXTENSIONS
from harness.topology.spec import LabFile


def page_files(page: Page) -> tuple[LabFile, ...]:
    """A file for each request, by its number: text for what a browser reads, random bytes for all else."""
    schedule = page.schedule()
    names = [_file_name(number, request) for number, request in enumerate(schedule)]
    texts = [""] * len(schedule)
    if not page.not_for_browsers:
        fonts = [number for number, request in enumerate(schedule) if request.type == "font"]
        texts[0] = _document(schedule, names, fonts)
        for number, request in enumerate(schedule):
            if request.type == "style":
                # A browser asks for a font once, whoever names it.
                texts[number] = "".join(_font_face(font, names) for font in fonts if number in schedule[font].after)
            if request.type in ("style", "script"):
                texts[number] = texts[number] or "/**/"
    return tuple(
        LabFile(name=name, size=request.size.bytes, text=text, is_image=request.type == "image")
        for name, request, text in zip(names, schedule, texts, strict=True)
    )


def _file_name(number: int, request: ScheduledRequest) -> str:
    extension = "bin" if request.type is None else EXTENSIONS[request.type]
    return f"{number:04d}-{request.size.label()}.{extension}"


def _font_face(font: int, names: Sequence[str]) -> str:
    return f"@font-face{{font-family:f{font};src:url({names[font]})}}"


def _document(schedule: Sequence[ScheduledRequest], names: Sequence[str], fonts: Sequence[int]) -> str:
    """HTML that has a browser ask for the objects, in their order as far as they are found at the same time."""
    marks = {
        "style": "<link rel=stylesheet href={}>",
        "script": "<script src={} defer></script>",
        "image": "<img src={}>",
    }
    # Without an icon of its own a document has browsers ask for one.
    head = "<!DOCTYPE html><meta charset=utf-8><title>page</title><link rel=icon href=data:,>"
    objects = "".join(
        marks[request.type].format(name)
        for name, request in zip(names, schedule, strict=True)
        if request.type is not None and request.type in marks
    )
    # A font is asked for where a text has it.
    return head + objects + "".join(f"<p style=font-family:f{font}>page</p>" for font in fonts)
