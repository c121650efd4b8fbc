"""Which programs of an image are Go's, and whether its collector is kept from asking for AVX-512."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.check.run import go_programs, processor_findings
from harness.engine.images.rootfs_export import RootFs
from tests.examples import implementation


def _build_info(version: str, *, flags: int = 2) -> bytes:
    """As Go's linker writes it (debug/buildinfo of Go's source)."""
    return (
        b"\xff Go buildinf:".ljust(15, b"\x08") + bytes([flags]) + bytes(16) + bytes([len(version)]) + version.encode()
    )


def _program(root: Path, name: str, content: bytes, mode: int = 0o755) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(mode)


def _root(folder: Path, *environment: str) -> RootFs:
    return RootFs("one:1", "sha256:1", "sha256:1", str(folder), ["/run"], list(environment), "/", "", 15)


def test_programs_of_go_are_known_by_what_its_linker_wrote(tmp_path: Path) -> None:
    elf = b"\x7fELF" + bytes(100)
    _program(tmp_path, "usr/bin/new", elf + _build_info("go1.26.11") + bytes(50))
    # One that looks for it in others has its first bytes among its own data.
    _program(tmp_path, "usr/bin/reader", elf + b"\xff Go buildinf:" + bytes(40) + _build_info("devel go1.27-abc"))
    _program(tmp_path, "usr/bin/ancient", elf + _build_info("go1.17", flags=0))
    _program(tmp_path, "usr/bin/other", elf)
    _program(tmp_path, "usr/bin/cut", elf + _build_info("go1.26")[:32])
    _program(tmp_path, "usr/share/text", _build_info("go1.26"))
    _program(tmp_path, "usr/share/sample", elf + _build_info("go1.26"), 0o644)
    (tmp_path / "bin").symlink_to("/usr/bin")
    (tmp_path / "usr/bin/again").symlink_to("/usr/bin/new")
    assert go_programs(tmp_path) == {"/usr/bin/new": "go1.26.11", "/usr/bin/reader": "devel go1.27-abc"}


@pytest.mark.parametrize(
    ("version", "environment", "manifest_environment", "answer"),
    [
        ("go1.24.4", (), {}, None),
        ("go1.26.0", (), {}, "does not hold"),
        ("go2.0", (), {}, "does not hold"),
        ("go1.26.0", ("PATH=/bin",), {"GODEBUG": "cpu.avx512vl=off"}, "holds"),
        ("go1.26.0", ("GODEBUG=madvdontneed=1,cpu.all=off",), {}, "holds"),
        ("go1.26.0", (), {"GODEBUG": "cpu.avx512vl=on"}, "does not hold"),
        # The foundation alone is asked for nowhere.
        ("go1.26.0", (), {"GODEBUG": "cpu.avx512f=off"}, "does not hold"),
        # What the manifest says stands in place of what the image does.
        ("go1.26.0", ("GODEBUG=cpu.avx512vl=off",), {"GODEBUG": "gctrace=1"}, "does not hold"),
    ],
)
def test_the_collector_of_go_must_not_ask_for_avx512(
    tmp_path: Path, version: str, environment: tuple[str, ...], manifest_environment: dict[str, str], answer: str | None
) -> None:
    _program(tmp_path, "server", b"\x7fELF" + _build_info(version))
    stack = implementation("alpha", virtual_environment=manifest_environment)
    findings = list(processor_findings(stack, _root(tmp_path, *environment)))
    assert [item.answer for item in findings] == ([] if answer is None else [answer])
    assert all(f"/server ({version})" in item.seen for item in findings)
    assert all(("GODEBUG: cpu.avx512vl=off" in item.seen) == item.failed for item in findings)
