"""What a program does that has left its guest: calls of the host, made through the lab kernel's own instructions.

`INIT` is the first process of a guest. It looks for a `syscall` instruction that its process of the host has and that
its guest does not stop: one of the lab kernel's text where that is mapped, else one of the page by which the lab kernel
maps memory for it. Then it makes one call of the host for each attempt, and says what came of it.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass

#: Numbers of the host's system calls (arch/x86/entry/syscalls/syscall_64.tbl).
_SOCKET, _FORK, _EXECVE, _KILL, _PTRACE, _SETUID = 41, 57, 59, 62, 101, 105
_MOUNT, _REBOOT, _INIT_MODULE, _SCHED_SETAFFINITY, _KEYCTL, _UNSHARE, _PERF = 165, 169, 175, 203, 250, 272, 298
_SETNS, _PROCESS_VM_READV, _BPF, _USERFAULTFD, _IO_URING, _CLONE, OPENAT = 308, 310, 321, 323, 425, 56, 257
#: openat(2): paths that are not absolute begin in the working directory.
AT_CWD = -100
_NEW_USER = 0x10000000
#: What ends who makes it.
ENDED = "ended"


@dataclass(frozen=True)
class Attempt:
    """One call of the host, and what must come of it."""

    does: str
    """In words, for the table of the docs."""
    call: int
    arguments: tuple[int | str, ...]
    result: int | str
    """The errors that do, or ENDED."""
    also: tuple[int, ...] = ()
    """Errors that do as well: another layer answered."""

    @property
    def fits(self) -> frozenset[int | str]:
        """Everything that may come of it."""
        return frozenset({self.result, *self.also})


_AWAY = (errno.EACCES, errno.EROFS)
ATTEMPTS = (
    Attempt("makes a file in the host's /tmp", OPENAT, (AT_CWD, "/tmp/escaped", os.O_CREAT | os.O_WRONLY, 0o666), errno.ENOENT, _AWAY),
    Attempt("makes a file in the host's /", OPENAT, (AT_CWD, "/escaped", os.O_CREAT | os.O_WRONLY, 0o666), errno.EROFS, _AWAY),
    Attempt("reads /etc/shadow", OPENAT, (AT_CWD, "/etc/shadow", os.O_RDONLY, 0), errno.ENOENT, _AWAY),
    Attempt("reads another run's folder", OPENAT, (AT_CWD, "@neighbour", os.O_RDONLY, 0), errno.ENOENT, _AWAY),
    Attempt("writes to an image in the cache", OPENAT, (AT_CWD, "/proc/self/cwd/rootfs/escaped", os.O_CREAT | os.O_WRONLY, 0o666),
            errno.EROFS, _AWAY),
    Attempt("writes to the cache by its path", OPENAT, (AT_CWD, "@cache", os.O_CREAT | os.O_WRONLY, 0o666), errno.ENOENT, _AWAY),
    Attempt("writes to its kernel by /proc/self/mem", OPENAT, (AT_CWD, "/proc/self/mem", os.O_RDWR, 0), errno.EROFS, _AWAY),
    Attempt("reads the memory of the first process", OPENAT, (AT_CWD, "/proc/1/mem", os.O_RDONLY, 0), errno.EACCES, _AWAY),
    Attempt("opens a device", OPENAT, (AT_CWD, "/dev/mem", os.O_RDONLY, 0), errno.ENOENT, _AWAY),
    Attempt("opens an Internet socket", _SOCKET, (2, 1, 0), errno.EPERM),
    Attempt("opens a Unix socket, for abstract addresses", _SOCKET, (1, 1, 0), errno.EPERM),
    Attempt("opens a packet socket", _SOCKET, (17, 3, 0), errno.EPERM),
    Attempt("traces the harness", _PTRACE, (16, "@harness", 0, 0), errno.EPERM),
    Attempt("sends the harness a signal", _KILL, ("@harness", 9), errno.ESRCH, (errno.EPERM,)),
    Attempt("reads the harness's memory", _PROCESS_VM_READV, ("@harness", 0, 0, 0, 0, 0), ENDED),
    Attempt("starts /bin/sh", _EXECVE, ("/bin/sh", 0, 0), ENDED),
    Attempt("forks past the guest", _FORK, (), ENDED),
    Attempt("becomes root of a namespace", _CLONE, (_NEW_USER | 17, 0, 0, 0, 0), ENDED),
    Attempt("leaves its namespaces", _SETNS, (0, 0), ENDED),
    Attempt("makes namespaces", _UNSHARE, (_NEW_USER,), ENDED),
    Attempt("mounts", _MOUNT, ("none", "/", "tmpfs", 0, 0), ENDED),
    Attempt("becomes another user", _SETUID, (0,), ENDED),
    Attempt("takes all cores", _SCHED_SETAFFINITY, (0, 8, 0), ENDED),
    Attempt("loads a program into the host's kernel", _BPF, (5, 0, 0), ENDED),
    Attempt("makes an io_uring", _IO_URING, (8, 0), ENDED),
    Attempt("handles page faults", _USERFAULTFD, (0,), ENDED),
    Attempt("counts the host's events", _PERF, (0, 0, -1, -1, 0), ENDED),
    Attempt("reads the host's keys", _KEYCTL, (0, -3, 0), ENDED),
    Attempt("loads a module", _INIT_MODULE, (0, 0, 0), ENDED),
    Attempt("switches the host off", _REBOOT, (0xFEE1DEAD - (1 << 32), 672274793, 0x4321FEDC, 0), ENDED),
)  # fmt: skip

#: The way out, in a guest: `host(call, *arguments)` is a call of the host.
DOOR = r"""
import errno, json, mmap, re, struct

def instruction_of_kernel():
    # syscall; ret in the text of the lab kernel, which its file has at a known place.
    with open("/opt/lab/linux", "rb") as file:
        image = file.read()
    start, size, count = struct.unpack_from("<Q", image, 32)[0], *struct.unpack_from("<HH", image, 54)
    for number in range(count):
        kind, flags, offset, address, _, length = struct.unpack_from("<IIQQQQ", image, start + number * size)
        if kind == 1 and flags & 1:
            found = image.find(b"\x0f\x05\xc3", offset, offset + length)
            if found >= 0:
                return address + found - offset

def readable(address):
    child = os.fork()
    if child == 0:
        ctypes.string_at(address, 1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

def instruction_of_stub():
    # A page below the end of all addresses; what follows its instruction does not matter any more.
    page = 0x7FFFFFFFF000
    for _ in range(4096):
        page -= 4096
        if readable(page):
            found = ctypes.string_at(page, 4096).find(b"\x0f\x05")
            if found >= 0:
                return page + found
    raise SystemExit("no instruction")

entry = open("/proc/lab/entry").read().split()[0]
gadget = instruction_of_stub() if entry == "host" else instruction_of_kernel()
# mov rax, rdi; mov rdi, rsi; mov rsi, rdx; mov rdx, rcx; mov r10, r8; mov r8, r9; mov r9, [rsp+8]; mov r11, gadget
code = bytes.fromhex("4889f8 4889f7 4889d6 4889ca 4d89c2 4d89c8 4c8b4c2408 49bb") + struct.pack("<Q", gadget)
code += bytes.fromhex("41ffe3")  # jmp r11
area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
area.write(code)
place = ctypes.addressof(ctypes.c_char.from_buffer(area))
raw = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 7)(place)

def host(call, *arguments):
    kept = [ctypes.create_string_buffer(one.encode()) if isinstance(one, str) else one for one in arguments]
    words = [ctypes.addressof(one) if isinstance(one, ctypes.Array) else one for one in kept]
    # The host's kernel writes where the guest has not touched yet: nothing is mapped there for it.
    for one in kept:
        if isinstance(one, ctypes.Array):
            one[0] = one[0]
    return raw(call, *words, *[0] * (6 - len(words)))
"""


def init(attempts: tuple[Attempt, ...], values: dict[str, int | str]) -> str:
    """An init's program that makes attempts, one after the other. `values`: of arguments that begin with '@'."""
    given = [
        (
            number,
            attempt.call,
            [values.get(word, word) if isinstance(word, str) else word for word in attempt.arguments],
        )
        for number, attempt in enumerate(attempts)
    ]
    return DOOR + (
        f"\nfor number, call, arguments in json.loads({json.dumps(given)!r}):\n"
        "    print('trying', number, flush=True)\n"
        "    print('result', number, host(call, *arguments), flush=True)\n"
    )
