from __future__ import annotations

import call_sites as sites
import pytest

from tests.machine_code import STARTS, as_read, found_in


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("90 90 90 90 90 90 90 b8 2a 00 00 00 0f 05", "number"),
        # mov $0x2a,%r8d; movl $0x2a,-0x48(%rbp); cmpl; imul: the number is another instruction's.
        ("90 90 90 90 90 90 41 b8 2a 00 00 00 0f 05", None),
        ("90 90 90 90 90 c7 45 b8 2a 00 00 00 0f 05", None),
        ("90 90 90 90 90 81 7d b8 2a 00 00 00 0f 05", None),
        ("90 90 90 90 90 69 45 b8 2a 00 00 00 0f 05", None),
        ("90 90 90 90 90 90 90 48 8b 44 24 10 0f 05 5b c3", "one thread"),
        ("90 90 90 90 90 90 90 48 8b 44 24 10 0f 05 5b 90", None),
    ],
)
def test_code_that_looks_alike_stays(code: str, kind: str | None) -> None:
    raw = bytes.fromhex(code)
    kinds = [site.name for site in sites.SITES if found_in(raw, site)]
    assert kinds == ([kind] if kind else [])


def test_the_kernels_table_has_every_kind_and_every_byte() -> None:
    table = sites.table()
    assert table.count(".before =") == len(sites.SITES)
    for site in sites.SITES:
        assert 5 <= site.length <= 6
        assert f"/* {site.name} */" in table
        assert f".length = {len(site.code)}," in table


def test_code_is_read_as_a_disassembler_reads_it() -> None:
    (number,) = [site for site in sites.SITES if site.number]
    code = bytes.fromhex("90" * 128 + "b8 2a 00 00 00 0f 05 c3")
    (place,) = found_in(code, number)
    assert dict(as_read(code, place, number)) == {"mov eax, N; syscall": STARTS}
    other = bytes.fromhex("90" * 128 + "c7 44 24 b8 2a 00 00 00 0f 05 c3")
    assert not found_in(other, number)
    assert dict(as_read(other, len(other) - 3, number)) == {"syscall": STARTS}
