"""Adapts the sources of User Mode Linux to the lab: run in the kernel's source folder, with this folder's files.

Each change names what it hooks into; when a later kernel has changed there, the build says so and stops. The
changes: a static executable, a seeded random generator (lab_random.c), clocks that are read without a system
call (lab_clock.h, lab_vdso.c), two futex calls less where the other side is known to run or to wait, the block
size of any other file system for the host's files, and links that let go of their senders' sockets.
"""

import re
import sys
from pathlib import Path

HERE = Path(sys.argv[1])
UM = Path("arch/um")


def change(file: Path, *edits: tuple[str, str]) -> None:
    """Replace each pattern, which must be there exactly once."""
    text = file.read_text()
    for pattern, replacement in edits:
        text, count = re.subn(pattern, lambda _, new=replacement: new, text, flags=re.MULTILINE | re.DOTALL)
        if count != 1:
            raise SystemExit(f"{file}: found {count} places for {pattern!r} instead of one: this kernel is another one")
    file.write_text(text)


def put(file: Path, pattern: str, *, ahead: str = "", behind: str = "") -> None:
    """Add text around a pattern, which must be there exactly once."""
    found = re.findall(pattern, file.read_text(), flags=re.MULTILINE)
    change(file, (pattern, ahead + (found or [""])[0] + behind))


def add(name: str, target: Path) -> None:
    """Put one of our files into the sources."""
    target.write_bytes((HERE / name).read_bytes())


# A static executable runs on any machine. Only two transports of the vector driver, which the lab does not use,
# look up names at run time.
change(UM / "Kconfig", (r"^\tdepends on !MAY_HAVE_RUNTIME_DEPS\n", ""))

# Randomness from a seed alone. Interrupts come when the host delivers its signals, which is never twice the same.
change(Path("kernel/irq/handle.c"), (r"^\tadd_interrupt_randomness\(desc->irq_data\.irq\);\n", ""))
add("lab_random.c", UM / "os-Linux/lab_random.c")
change(UM / "os-Linux/util.c", (r"^ssize_t os_getrandom\(.*?^}\n", ""))
change(
    UM / "os-Linux/Makefile",
    (r" util\.o skas/", " util.o lab_random.o skas/"),
    (r" util\.o smp\.o", " util.o lab_random.o smp.o"),
)

# The clock page: at the start of the page that a process shares with the kernel.
add("lab_clock.h", UM / "include/shared/lab_clock.h")
add("lab_vdso.c", Path("arch/x86/um/vdso/um_vdso.c"))
data = UM / "include/shared/skas/stub-data.h"
put(data, r"#include <mm_id\.h>\n", behind="#include <lab_clock.h>\n")
put(data, r"struct stub_data \{\n", behind="\tstruct lab_clock clock;\n")
put(data, r"\tunsigned int futex;\n", behind="\tint waits;\n")
vma = Path("arch/x86/um/vdso/vma.c")
put(
    vma,
    r"#include <linux/init\.h>\n",
    behind="#include <as-layout.h>\n#include <os.h>\n#include <skas.h>\n"
    "#include <lab_clock.h>\n#include <shared/timetravel.h>\n",
)
put(
    vma,
    r"\tcopy_page\(page_address\(um_vdso\), vdso_start\);\n",
    behind="""
	{
		unsigned long *word = page_address(um_vdso), *end = (void *)word + PAGE_SIZE;
		int found = 0;

		for (; word < end; word++) {
			if (*word != LAB_CLOCK_PLACE)
				continue;
			*word = using_seccomp && time_travel_mode == TT_MODE_INFCPU ? STUB_DATA : 0;
			found++;
		}
		BUG_ON(found != 1);
	}
""",
)
time = UM / "kernel/time.c"
put(time, r"#include <shared/init\.h>\n", behind="#include <lab_clock.h>\n")
put(
    time,
    r"^EXPORT_SYMBOL\(time_travel_ndelay\);\n",
    behind="""
/* A process is about to run: its clock page says what time it is, and until when it may look by itself. */
void lab_clock_resume(struct lab_clock *clock)
{
	struct time_travel_event *event;
	unsigned long flags;

	BUILD_BUG_ON(LAB_CLOCK_COST != TIMER_MULTIPLIER);
	if (time_travel_mode != TT_MODE_INFCPU)
		return;
	local_irq_save(flags);
	clock->monotonic = ktime_get_ns();
	clock->realtime = ktime_get_real_ns();
	event = time_travel_first_event();
	clock->reads = 0;
	clock->limit = 0;
	if (event && event->time > time_travel_time)
		clock->limit = min((event->time - time_travel_time - 1) / LAB_CLOCK_COST, 1ull << 20);
	local_irq_restore(flags);
}

/* A process came back: what it looked at the clock takes its time now. */
void lab_clock_settle(struct lab_clock *clock)
{
	unsigned int reads = clock->reads;

	clock->limit = 0;
	clock->reads = 0;
	if (reads)
		time_travel_update_time_rel((unsigned long long)reads * LAB_CLOCK_COST);
}
""",
)
process = UM / "os-Linux/skas/process.c"
put(
    process,
    r"^static int unscheduled_userspace_iterations;\n",
    behind="extern void lab_clock_resume(struct lab_clock *clock);\n"
    "extern void lab_clock_settle(struct lab_clock *clock);\n",
)
put(
    process,
    r"\t\t\twait_stub_done_seccomp\(mm_id, 0, 0\);\n",
    ahead="\t\t\tlab_clock_resume(&proc_data->clock);\n",
    behind="\t\t\tlab_clock_settle(&proc_data->clock);\n",
)

# Kernel and process hand over by a futex. Both run on one core: whoever is woken often runs at once, and then the
# other has nothing to wait for, and nobody to wake.
change(
    process,
    (
        r"(?<=data->futex = FUTEX_IN_CHILD;\n\t\t\t)CATCH_EINTR\(syscall\(__NR_futex, &data->futex,\n",
        "__sync_synchronize();\n\t\t\tif (__READ_ONCE(data->waits))\n"
        "\t\t\t\tCATCH_EINTR(syscall(__NR_futex, &data->futex,\n",
    ),
    (
        r"(?<=goto out_kill;\n\n\t\t\t)ret = syscall\(__NR_futex, &data->futex,\n",
        "ret = __READ_ONCE(data->futex) != FUTEX_IN_CHILD ? 0 :\n\t\t\t      syscall(__NR_futex, &data->futex,\n",
    ),
)
stub = UM / "kernel/skas/stub.c"
change(
    stub,
    (
        r"\tdo \{\n\t\tres = stub_syscall4\(__NR_futex, \(unsigned long\)&d->futex,\n"
        r"\t\t\t\t    FUTEX_WAIT, FUTEX_IN_KERN, 0\);\n"
        r"\t\} while \(res == -EINTR \|\| d->futex == FUTEX_IN_KERN\);\n",
        "\tres = 0;\n\td->waits = 1;\n\t__sync_synchronize();\n"
        "\twhile (*(volatile unsigned int *)&d->futex == FUTEX_IN_KERN)\n"
        "\t\tres = stub_syscall4(__NR_futex, (unsigned long)&d->futex,\n"
        "\t\t\t\t    FUTEX_WAIT, FUTEX_IN_KERN, 0);\n"
        "\td->waits = 0;\n\tif (res == -EINTR)\n\t\tres = 0;\n",
    ),
)

# Programs buffer a file by the block size its file system states: with 1024 bytes they write four times as often as
# on any disk.
change(
    Path("fs/hostfs/hostfs_kern.c"),
    (r"s_blocksize = 1024;", "s_blocksize = PAGE_SIZE;"),
    (r"s_blocksize_bits = 10;", "s_blocksize_bits = PAGE_SHIFT;"),
)

# Between namespaces a packet stays on its sender's account until it is delivered: what waits in the path's queues
# would fill the sender's socket buffer, and hold it back (SO_SNDBUF; TCP small queues) where a wire would not.
put(Path("drivers/net/veth.c"), r"^\tskb_tx_timestamp\(skb\);\n", behind="\tskb_orphan(skb);\n")
