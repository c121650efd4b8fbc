"""Every image that is built here and tested has a record of what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.images.build import Images
from harness.engine.images.contents import is_digest
from harness.engine.images.record import read_record
from tests.examples import ROOT, catalogue

_IMAGES = Images(ROOT / "images", ROOT / ".state")
FOLDERS = sorted(
    {
        *(build.folder for build in _IMAGES.support_builds.values()),
        *(
            (folder / item.build).resolve()
            for item, folder in catalogue().implementations().values()
            if item.build is not None and item.tested
        ),
    }
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_image_has_a_record(folder: Path) -> None:
    record = read_record(folder)
    assert record is not None, f"'harness images {folder.name} --record' writes it"
    assert record.base
    assert is_digest(record.composition.contents)
    assert record.composition.components
