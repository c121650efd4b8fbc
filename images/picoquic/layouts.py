"""Hold the structures that src/picoquic.h declares against those of picoquic's object: layouts.py OURS THEIRS.

Both files carry DWARF. A member counts unless its name begins with "unused"; of a structure with such members the size
does not count. Exit code 1, and a line for each difference, where picoquic's is another.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

#: Name → (size in bytes, member → its place in bits, its size in bytes).
Layouts = dict[str, tuple[int, dict[str, tuple[int, int]]]]
#: What picoquic's structures are called.
OURS = ("st_picoquic", "st_h3zero", "st_picohttp")


def layouts(file: str) -> Layouts:
    """The structures of picoquic that a file declares."""
    with Path(file).open("rb") as stream:
        found: Layouts = {}
        for unit in ELFFile(stream).get_dwarf_info().iter_CUs():
            _collect(unit.get_top_DIE(), found)
        return found


def _collect(parent: Any, found: Layouts) -> None:
    """Structures, also those declared within others."""
    for die in parent.iter_children():
        if die.tag != "DW_TAG_structure_type":
            continue
        name = die.attributes["DW_AT_name"].value.decode() if "DW_AT_name" in die.attributes else ""
        if name.startswith(OURS) and "DW_AT_byte_size" in die.attributes:
            members = {
                member.attributes["DW_AT_name"].value.decode(): (_place(member), _size(member))
                for member in die.iter_children()
                if member.tag == "DW_TAG_member" and "DW_AT_name" in member.attributes
            }
            found.setdefault(name, (die.attributes["DW_AT_byte_size"].value, members))
        _collect(die, found)


def _place(member: Any) -> int:
    if "DW_AT_data_bit_offset" in member.attributes:
        return int(member.attributes["DW_AT_data_bit_offset"].value)
    offset = member.attributes.get("DW_AT_data_member_location")
    return 8 * int(offset.value) if offset else 0


def _size(member: Any) -> int:
    """Of a member's type, bytes; bit fields count as what holds them, arrays as their elements' number of bytes."""
    die, times = member, 1
    while "DW_AT_byte_size" not in die.attributes:
        if die.tag == "DW_TAG_pointer_type":
            return 8
        if die.tag == "DW_TAG_array_type":
            for bound in die.iter_children():
                last = bound.attributes.get("DW_AT_upper_bound")
                times *= int(last.value) + 1 if last else 0
        die = die.get_DIE_from_attribute("DW_AT_type")
    return times * int(die.attributes["DW_AT_byte_size"].value)


def differences(ours: Layouts, theirs: Layouts) -> list[str]:
    """What picoquic's object has otherwise."""
    found = []
    for name, (size, members) in ours.items():
        if name not in theirs:
            found.append(f"{name}: picoquic has none")
            continue
        their_size, their_members = theirs[name]
        for member, place in members.items():
            if not member.startswith("unused") and their_members.get(member) != place:
                there = their_members.get(member)
                text = "nothing" if there is None else f"{there[1]} bytes at bit {there[0]}"
                found.append(f"{name}.{member}: {place[1]} bytes at bit {place[0]} here, {text} there")
        if size != their_size and not any(member.startswith("unused") for member in members):
            found.append(f"{name}: {size} bytes here, {their_size} there")
    return found


if __name__ == "__main__":
    ours = layouts(sys.argv[1])
    wrong = differences(ours, layouts(sys.argv[2]))
    if wrong or not ours:
        sys.exit("\n".join(["error: src/picoquic.h is not the picoquic of the wheel:", *wrong]))
