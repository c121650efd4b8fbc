"""What an image's export says of its components."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import Any

import pytest

from harness.engine.images import components
from harness.engine.images.components import CARGO_LOCK, Component, Composition, GoProgram, Module, composition_of_tar
from harness.engine.images.contents import _tar_contents
from harness.errors import EngineError
from tests.unit.image_tars import HARD, go_program, tar_of

SUM = "h1:g7W+BMYynC1LbYLSqRt8PBg5Tgwxn214ZZR34VIOjz8="
STATUS = """Package: libssl3t64
Status: install ok installed
Architecture: amd64
Source: openssl (3.5.4-1)
Version: 3.5.4-1+b1
Description: a
 b: c

Package: gone
Status: deinstall ok config-files
Version: 1
"""
LIST = "/.\n/lib/libssl.so.3\n/usr/share/doc/openssl/copyright\n/usr/share/man\n/var/cache/openssl\n/etc/ssl.cnf\n"
INFO = "var/lib/dpkg/info/libssl3t64:amd64"
FILES: dict[str, str | bytes] = {
    "var/lib/dpkg/status": STATUS,
    f"{INFO}.list": LIST,
    f"{INFO}.postinst": "true",
    "usr/lib/libssl.so.3": "library",
    "usr/share/doc/openssl/copyright": "a document",
    "var/cache/openssl": "of today",
    "usr/lib/os-release": 'ID=debian\nVERSION_ID="13"\n',
    "usr/local/bin/server": "ours",
}
LINKS = {"lib": "usr/lib", "etc/ssl.cnf": "../usr/lib/ssl.cnf", "usr/local/bin/alias": f"{HARD}usr/local/bin/server"}
PROGRAMS = ("usr/local/bin/server", f"{INFO}.postinst")


def of(files: dict[str, Any], links: dict[str, str] | None = None, programs: tuple[str, ...] = PROGRAMS) -> Composition:
    return composition_of_tar(tar_of(files, links, programs), "example/image:1")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest(**lines: str) -> str:
    return sha256("".join(f"{path}\0{content}\n" for path, content in sorted(lines.items())))


def test_a_package_has_the_digest_of_its_files_without_documents_and_caches() -> None:
    composition = of(FILES, LINKS)
    lines = {"usr/lib/libssl.so.3": sha256("library"), "etc/ssl.cnf": "../usr/lib/ssl.cnf"}
    assert composition.components == (
        Component("deb", "libssl3t64", "3.5.4-1+b1", "amd64", "openssl 3.5.4-1", digest(**lines)),
    )
    assert composition.distribution == "debian-13"
    assert of(FILES | {"usr/share/doc/openssl/copyright": "other", "var/cache/openssl": ""}, LINKS) != composition
    assert (
        of(FILES | {"usr/share/doc/openssl/copyright": "x", "var/cache/openssl": ""}, LINKS).components
        == composition.components
    )
    assert of(FILES | {"usr/lib/libssl.so.3": "altered"}, LINKS).components != composition.components


def test_programs_of_no_package_are_files_of_their_own() -> None:
    composition = of(FILES, LINKS)
    assert composition.files == dict.fromkeys(("/usr/local/bin/alias", "/usr/local/bin/server"), sha256("ours"))


def test_the_contents_are_those_that_are_counted_elsewhere() -> None:
    assert of(FILES, LINKS).contents == _tar_contents(tar_of(FILES, LINKS, PROGRAMS)).digest


def test_a_link_that_leads_out_is_a_link_and_nothing_else() -> None:
    outside = {
        "lib": "../../../../etc",
        "usr/local/bin/passwd": "/etc/passwd",
        "var/lib/dpkg/info/x.list": "/etc/passwd",
    }
    composition = of(FILES, outside)
    assert [item.name for item in composition.components] == ["libssl3t64"]
    assert composition.components[0].digest == ""
    assert "/usr/lib/libssl.so.3" in composition.files


def test_distributions_of_python() -> None:
    site = "opt/site"
    record = "a/__init__.py,sha256=x,3\na/__pycache__/a.pyc,,\n../../bin/a,,\n../../../../../etc/shadow,,\n"
    files = {
        f"{site}/a_b-1.0.dist-info/METADATA": "Metadata-Version: 2.4\nName: A_b\nVersion: 1.0\n\nName: other\n",
        f"{site}/a_b-1.0.dist-info/RECORD": record,
        f"{site}/a/__init__.py": "pass",
        "bin/a": "script",
        "etc/shadow": "secret",
    }
    composition = of(files, programs=("bin/a",))
    lines = {f"{site}/a/__init__.py": sha256("pass"), "bin/a": sha256("script")}
    assert composition.components == (Component("pypi", "A_b", "1.0", digest=digest(**lines)),)
    assert composition.files == {}


LINES = "\n".join(
    (
        "path\texample/main", "mod\texample/main\t(devel)\t", f"dep\tgithub.com/Quic/quic-go\tv0.55.0\t{SUM}",
        "dep\texample/local\tv0.0.0", "=>\t/home/somebody/local\t\t",
        "dep\texample/old\tv1.0.0\th1:x", f"=>\texample/new\tv2.0.0\t{SUM}", "build\tCGO_ENABLED=0", "",
    )
)  # fmt: skip


def test_modules_of_go() -> None:
    composition = of({"usr/local/bin/a": go_program(LINES), "data": b"no program" + go_program(LINES)[10:]})
    assert composition.components == (
        Component("golang", "example/local", ""),
        Component("golang", "example/new", "v2.0.0", digest=SUM),
        Component("golang", "github.com/Quic/quic-go", "v0.55.0", digest=SUM),
        Component("golang", "stdlib", "1.26.1"),
    )


@pytest.mark.parametrize("size", [1, 7, 13, 100])
def test_the_mark_of_go_may_lie_across_blocks(size: int) -> None:
    data, program = go_program(LINES), GoProgram()
    # The first block has the whole head of an ELF file.
    for block in (data[:16], *(data[at : at + size] for at in range(16, len(data), size))):
        program.feed(block)
    assert len(program.modules()) == 4


def test_the_text_of_go_s_own_tools_is_no_build_information() -> None:
    program = GoProgram()
    data = go_program("", version="xyz", before=32) + go_program(LINES, before=16)[16:]
    program.feed(data.ljust(4096, b"\0"))
    assert len(program.modules()) in (0, 4)
    for bad in (go_program(LINES, flags=0), go_program(LINES, before=65), go_program(LINES)[:90], b"", b"\x7fELF"):
        program = GoProgram()
        program.feed(bad)
        assert program.modules() in ([], [Module("stdlib", "1.26.1", "")])


def test_crates_with_a_checksum() -> None:
    lock = f"""version = 4
[[package]]
name = "quiche"
version = "0.30.0"
source = "registry"
checksum = "{"a" * 64}"
[[package]]
name = "mine"
version = "0.1.0"
"""
    assert of({CARGO_LOCK: lock}).components == (Component("cargo", "quiche", "0.30.0", digest="a" * 64),)


def test_the_source_of_the_lab_kernel() -> None:
    expected = (Component("deb", "linux-source", "7.2.12-1~bpo13+1", "all", "linux"),)
    for place in ("linux.version", "opt/lab/linux.version"):
        assert of({place: "7.2.12-1~bpo13+1\n"}).components == expected


@pytest.mark.parametrize(
    "files",
    [
        {
            "var/lib/dpkg/status": "Package\n\n: :\nStatus: x installed\n\nStatus: install ok installed\nPackage: \x1b[2J\n"
        },
        {"var/lib/dpkg/status": b"\xff\xfe\0Package: a\nStatus: installed"},
        {
            "var/lib/dpkg/status": STATUS.replace("libssl3t64", "../../x"),
            "var/lib/dpkg/info/../../x.list": "/etc/passwd",
        },
        {CARGO_LOCK: "not toml ["},
        {CARGO_LOCK: "package = 7"},
        {CARGO_LOCK: "package = [1, {name = 3, checksum = []}]"},
        {CARGO_LOCK: b"\xff\xff"},
        {CARGO_LOCK: "a = " + "[" * 5000},
        {"x.dist-info/METADATA": b"\xff\xff", "x.dist-info/RECORD": '"'},
        {"x.dist-info/METADATA": "Name: a\nVersion: 1\x07\n", "x.dist-info/RECORD": "\0,\n"},
        {"x.dist-info/METADATA": ""},
        {"linux.version": "a b\nc"},
        {"usr/bin/a": b"\x7fELF" + bytes(12) + b"\xff Go buildinf:" + b"\x08\x02" + bytes(16) + b"\xff" * 40},
    ],
)
def test_what_is_malformed_is_left_out(files: dict[str, Any]) -> None:
    assert of(files).components == ()


def test_names_that_are_no_text_are_written_out() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as archive:
        member = tarfile.TarInfo(b"usr/bin/\xff\n\x1b".decode(errors="surrogateescape"))
        member.mode = 0o755
        archive.addfile(member)
    stream.seek(0)
    (path,) = composition_of_tar(stream, "example/image:1").files
    assert path.isprintable() and path.isascii()


@pytest.mark.parametrize("data", [b"no tar file at all", tar_of(FILES).getvalue()[:700]])
def test_what_is_no_export_is_an_error_by_name(data: bytes) -> None:
    with pytest.raises(EngineError, match="the export of the image example/image:1 cannot be read"):
        composition_of_tar(io.BytesIO(data), "example/image:1")


@pytest.mark.parametrize("again", ["", "link"])
def test_a_file_that_is_there_twice_is_an_error(again: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for kind, target in (("", ""), ("hard", "a"), (again, "x")):
            member = tarfile.TarInfo("b" if kind == "hard" else "a")
            member.type = {"": tarfile.REGTYPE, "hard": tarfile.LNKTYPE, "link": tarfile.SYMTYPE}[kind]
            member.linkname = target
            archive.addfile(member)
    stream.seek(0)
    with pytest.raises(EngineError, match=r"example/image:1 cannot be read: it has /?[ab] twice"):
        composition_of_tar(stream, "example/image:1")


def test_more_than_an_honest_image_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_MOST_FILES", 2)
    with pytest.raises(EngineError, match="example/image:1 has too many files"):
        of(FILES)


def test_a_text_that_is_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_MOST_TEXT", 20)
    assert of(FILES, LINKS).components[0].digest == ""
