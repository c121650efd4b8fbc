"""Where system calls may be rewritten: code around a `syscall` instruction that is known for what it is.

The five bytes ahead of the instruction become a jump (lab_rewrite.c), so they have to be whole instructions that do the
same elsewhere, and no other code may jump between them. What is here holds for that: one instruction of five bytes, or
all of an assembler function. The instruction itself stays. adapt_inproc.py makes the kernel's table of this; a test
holds it against every program and library of every image.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    """Code around a system call. Bytes are hexadecimal, `..` is any."""

    name: str
    moved: str
    """Instructions ahead of `syscall` that are moved: five bytes or six."""
    ahead: str = ""
    behind: str = ""
    number: bool = False
    """Whether the last four bytes of what is moved are the call's number."""

    @property
    def code(self) -> list[int | None]:
        """All bytes in order, None for any."""
        text = f"{self.ahead} {self.moved} 0f 05 {self.behind}"
        return [None if byte == ".." else int(byte, 16) for byte in text.split()]

    @property
    def before(self) -> int:
        """Bytes ahead of `syscall`."""
        return len(f"{self.ahead} {self.moved}".split())

    @property
    def length(self) -> int:
        """Bytes that are moved."""
        return len(self.moved.split())


SITES = (
    # mov $number,%eax: nearly all there are. With these four bytes another instruction may end that has a constant or
    # a distance of 32 bits: it is none if RAX holds the number, and no such instruction's opcode stands ahead.
    Site("number", moved="b8 .. .. 00 00", number=True),
    # glibc, what may be cancelled, in a program of one thread: mov 0x10(%rsp),%rax; behind: pop %rbx; ret.
    Site("one thread", moved="48 8b 44 24 10", behind="5b c3"),
    # glibc's __syscall_cancel_arch, whole: mov %r11,0x8(%rsp) is its last move.
    Site(
        "cancellable",
        ahead="49 89 fb 48 89 f0 48 89 d7 48 89 ce 4c 89 c2 4d 89 ca 4c 8b 44 24 08 4c 8b 4c 24 10",
        moved="4c 89 5c 24 08",
        behind="c3",
    ),
    # glibc's syscall(3), whole: mov 0x8(%rsp),%r9 is its last move.
    Site(
        "syscall(3)",
        ahead="48 89 f8 48 89 f7 48 89 d6 48 89 ca 4d 89 c2 4d 89 c8",
        moved="4c 8b 4c 24 08",
        behind="48 3d 01 f0 ff ff",
    ),
    # Go's Syscall6, whole: mov %rcx,%rsi; mov %rbx,%rdi are its last moves.
    Site("Go", ahead="49 89 f2 48 89 fa", moved="48 89 ce 48 89 df", behind="48 3d 01 f0 ff ff"),
)

#: Opcodes of instructions with a constant of 32 bits behind an address (ADD to CMP, IMUL, MOV, TEST), and the prefix
#: that makes MOV to EAX another register's. None may stand in the bytes ahead of a `number`.
OTHERS = (0x81, 0x69, 0xC7, 0xF7)
OTHERS_AHEAD = 7


def table() -> str:
    """The kernel's table, in C."""
    rows = "".join(
        f"\t{{ .before = {site.before}, .moved = {site.length}, .length = {len(site.code)},\n"
        f"\t  .number = {int(site.number)},\n"
        f"\t  .code = {{ {', '.join(f'{byte or 0:#04x}' for byte in site.code)} }},\n"
        f"\t  .mask = {{ {', '.join('0' if byte is None else '0xff' for byte in site.code)} }} }}, /* {site.name} */\n"
        for site in SITES
    )
    longest = max(len(site.code) for site in SITES)
    before = max(site.before for site in SITES)
    behind = max(len(site.code) - site.before for site in SITES)
    return (
        f"#define LAB_SITE_LONGEST {longest}\n#define LAB_SITE_BEFORE {max(before, 5 + OTHERS_AHEAD)}\n"
        f"#define LAB_SITE_BEHIND {behind}\n#define LAB_SITE_OTHERS_AHEAD {OTHERS_AHEAD}\n\n"
        "struct lab_site {\n\tu8 before, moved, length, number, code[LAB_SITE_LONGEST], mask[LAB_SITE_LONGEST];\n};\n\n"
        f"static const struct lab_site lab_sites[] = {{\n{rows}}};\n\n"
        f"static const u8 lab_site_others[] = {{ {', '.join(f'{one:#04x}' for one in OTHERS)} }};\n"
    )
