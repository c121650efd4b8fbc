"""Adapts the sources of User Mode Linux to the lab: run in the kernel's source folder, with this folder's files.

Each change names what it hooks into; when a later kernel has changed there, the build says so and stops. The
changes: a static executable, a seeded random generator (lab_random.c), one processor for every guest (lab_cpu.c,
lab_host_cpu.c), testimony of what was handed out and called (lab_witness.c, lab_trace.c), clocks that are read
without a system call (lab_clock.h, lab_vdso.c), in real time the host's clock, two futex calls less where the other
side is known to run or to wait, the host's files in an order and with a block size that are the same everywhere, and
links that let go of their senders' sockets.
"""

from pathlib import Path

from edits import UM, add, change, put

# A static executable runs on any machine. Only two transports of the vector driver, which the lab does not use,
# look up names at run time.
change(UM / "Kconfig", (r"^\tdepends on !MAY_HAVE_RUNTIME_DEPS\n", ""))

# Randomness from a seed alone. Interrupts come when the host delivers its signals, which is never twice the same.
change(Path("kernel/irq/handle.c"), (r"^\tadd_interrupt_randomness\(desc->irq_data\.irq\);\n", ""))
add("lab_random.c", UM / "os-Linux/lab_random.c")
change(UM / "os-Linux/util.c", (r"^ssize_t os_getrandom\(.*?^}\n", ""))
OURS = "lab_random.o lab_host_cpu.o lab_trace.o"
change(
    UM / "os-Linux/Makefile",
    (r" util\.o skas/", f" util.o {OURS} skas/"),
    (r" util\.o smp\.o", f" util.o {OURS} smp.o"),
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
put(time, r"#include <shared/init\.h>\n", behind="#include <lab_clock.h>\n#include <lab_witness.h>\n")
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
	lab_looks += reads;
	if (reads)
		time_travel_update_time_rel((unsigned long long)reads * LAB_CLOCK_COST);
}

unsigned long long lab_time(unsigned long long ns)
{
	if (ns)
		time_travel_update_time_rel(ns);
	return time_travel_time;
}
""",
)
# Between the host's time, read early in the boot, and a clock that goes on from there some ms are lost. In real time
# what happens in this kernel is held against what its host captures, and against other simulators.
put(time, r"#include <linux/delay\.h>\n", behind="#include <linux/timekeeping.h>\n")
put(
    time,
    r"^void __init time_init\(void\)\n",
    ahead="""static int __init lab_set_clock(void)
{
	struct timespec64 now;

	if (time_travel_mode != TT_MODE_OFF)
		return 0;
	read_persistent_clock64(&now);
	return do_settimeofday64(&now);
}
late_initcall(lab_set_clock);

""",
)
process = UM / "os-Linux/skas/process.c"
put(
    process,
    r"\t\t\twait_stub_done_seccomp\(mm_id, 0, 0\);\n",
    ahead="\t\t\tlab_clock_resume(&proc_data->clock);\n",
    behind="\t\t\tlab_clock_settle(&proc_data->clock);\n",
)

# One processor: CPUID and RDTSC fault in a guest's processes, and the kernel answers them.
for name in ("lab_cpu.h", "lab_witness.h"):
    add(name, UM / "include/shared" / name)
for name in ("lab_cpu.c", "lab_witness.c"):
    add(name, UM / "kernel" / name)
for name in ("lab_host_cpu.c", "lab_trace.c"):
    add(name, UM / "os-Linux" / name)
change(UM / "kernel/Makefile", (r"capflags\.o skas/", "capflags.o lab_cpu.o lab_witness.o skas/"))
put(data, r"\tint seccomp;\n", behind="\tint lab_cpu;\n")
put(process, r"\t\t\.seccomp = using_seccomp,\n", behind="\t\t.lab_cpu = lab_cpu_fixed,\n")
put(process, r"#include <timetravel\.h>\n", behind="#include <lab_cpu.h>\n#include <lab_witness.h>\n")
stub_exe = UM / "kernel/skas/stub_exe.c"
put(stub_exe, r"#include <stub-data\.h>\n", behind="#include <lab_cpu.h>\n")
put(
    stub_exe,
    r"\t/\*\n\t \* If in seccomp mode, install the SECCOMP filter and trigger a syscall\.\n",
    ahead="\tif (init_data.lab_cpu && stub_syscall2(__NR_arch_prctl, LAB_ARCH_CPUID, 0) != 0)\n"
    "\t\tstub_syscall1(__NR_exit, 22);\n\n",
)
# A general protection fault (13) that one of our instructions made is over once it is answered.
put(
    process,
    r"\t\t\tcase SIGSEGV:\n(?=\t\t\t\tif \(using_seccomp \|\| PTRACE_FULL_FAULTINFO\))",
    behind="\t\t\t\tif (regs->faultinfo.trap_no == 13 && lab_cpu_answer(regs))\n"
    "\t\t\t\t\tbreak;\n"
    "\t\t\t\tlab_trace(LAB_TRACE_FAULT, lab_mix(UPT_IP(regs), regs->faultinfo.cr2), 0);\n",
)
# The vDSO of the host reads the counter.
host_time = UM / "os-Linux/time.c"
put(host_time, r"#include <sys/time\.h>\n", behind="#include <sys/syscall.h>\n")
change(
    host_time,
    (r"clock_gettime\(CLOCK_REALTIME, &realtime_tp\)", "syscall(SYS_clock_gettime, CLOCK_REALTIME, &realtime_tp)"),
    (r"clock_gettime\(CLOCK_MONOTONIC,&ts\)", "syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts)"),
)
architecture = UM / "kernel/um_arch.c"
put(architecture, r"#include <os\.h>\n", behind="#include <lab_cpu.h>\n")
put(architecture, r"\tint i = 0;\n\n#if IS_ENABLED\(CONFIG_SMP\)\n",
    ahead="\tif (lab_show_cpuinfo(m))\n\t\treturn 0;\n")  # fmt: skip

# A program's signal frames hold the state of the processor that it knows.
add("lab_xstate.h", UM / "include/shared/lab_xstate.h")
signal = Path("arch/x86/um/signal.c")
put(signal, r"#include <asm/sigframe\.h>\n", behind="#include <lab_xstate.h>\n")
change(
    signal,
    (r"copy_from_user\(regs->regs\.fp, from_fp64, host_fp_size\)", "lab_xstate_from_user(regs->regs.fp, from_fp64)"),
    (r"copy_to_user\(to_fp64, regs->regs\.fp, host_fp_size\)", "lab_xstate_to_user(to_fp64, regs->regs.fp)"),
    (r"if \(host_fp_size <= sizeof\(to_fp64->fpstate\)\)", "if (lab_xstate_size() <= sizeof(to_fp64->fpstate))"),
    (
        r"__put_user\(host_fp_size \+ FP_XSTATE_MAGIC2_SIZE,\n\t\t   &to_fp64",
        "__put_user(lab_xstate_size() + FP_XSTATE_MAGIC2_SIZE,\n\t\t   &to_fp64",
    ),
    (r"__put_user\(host_fp_size, &to_fp64", "__put_user(lab_xstate_size(), &to_fp64"),
    (r"\(void __user \*\)to_fp64 \+ host_fp_size\)", "(void __user *)to_fp64 + lab_xstate_size())"),
    (r"unsigned long math_size = host_fp_size \+", "unsigned long math_size = lab_xstate_size() +"),
)

# Testimony: the random bytes that programs are handed, and their system calls.
random = Path("drivers/char/random.c")
put(random, r"#include <asm/io\.h>\n", behind="#include <lab_witness.h>\n")
put(
    random,
    r"\t\tret = copy_to_iter\(&chacha_state\.x\[4\], CHACHA_KEY_SIZE, iter\);\n",
    behind="\t\tlab_random_handed(&chacha_state.x[4], ret);\n",
)
put(
    random,
    r"\t\tcopied = copy_to_iter\(block, sizeof\(block\), iter\);\n",
    behind="\t\tlab_random_handed(block, copied);\n",
)
programs = Path("fs/binfmt_elf.c")
put(programs, r"#include <asm/page\.h>\n", behind="#include <lab_witness.h>\n")
put(
    programs,
    r"\tget_random_bytes\(k_rand_bytes, sizeof\(k_rand_bytes\)\);\n",
    behind="\tlab_random_handed(k_rand_bytes, sizeof(k_rand_bytes));\n",
)
calls = UM / "kernel/skas/syscall.c"
put(calls, r"#include <asm/delay\.h>\n", behind="""#include <lab_witness.h>

static unsigned long long arguments_of(struct uml_pt_regs *r)
{
	unsigned long long digest = UPT_SYSCALL_ARG1(r);

	if (!lab_tracing)
		return 0;
	digest = lab_mix(digest, UPT_SYSCALL_ARG2(r));
	digest = lab_mix(digest, UPT_SYSCALL_ARG3(r));
	digest = lab_mix(digest, UPT_SYSCALL_ARG4(r));
	digest = lab_mix(digest, UPT_SYSCALL_ARG5(r));
	return lab_mix(digest, UPT_SYSCALL_ARG6(r));
}
""")  # fmt: skip
put(
    calls,
    r"\tstruct pt_regs \*regs = container_of\(r, struct pt_regs, regs\);\n",
    behind="\tunsigned long long arguments = arguments_of(r);\n",
)
put(
    calls,
    r"^out:\n\tsyscall_trace_leave\(regs\);\n",
    behind="\tlab_trace(UPT_SYSCALL_NR(r), arguments, PT_REGS_SYSCALL_RET(regs));\n",
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

# Folders of the host in an order that is the same everywhere.
add("lab_folder_user.c", Path("fs/hostfs/lab_folder_user.c"))
change(
    Path("fs/hostfs/hostfs_user.c"),
    (r"^void \*open_dir\(.*?(?=^int read_file\()", ""),
    (r"^void close_dir\(.*?^}\n\n", ""),
)
change(Path("fs/hostfs/Makefile"), (r" hostfs_user\.o ", " hostfs_user.o lab_folder_user.o "))

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

# A serial link whose rate changes, and may be 0: no queueing discipline of the kernel's own is one. tbf makes it known:
# a function of its own that is called at boot would be a look at the clock, and all times after it later by that.
# Beside it stands a way whose delay and loss follow a series, and what came later of the kernel's own.
for name in ("sch_serial.c", "sch_serial.h", "sch_series.c", "sch_series.h", "sch_transit.c"):
    add(name, Path("net/sched") / name)
put(
    Path("net/sched/Makefile"),
    r"^obj-\$\(CONFIG_NET_SCH_TBF\)\t\+= sch_tbf\.o\n",
    behind="obj-y += sch_serial.o sch_series.o sch_transit.o\n",
)
for file, start in (
    ("sch_sfq", "sfq_module_init"),
    ("sch_dualpi2", "dualpi2_module_init"),
    ("act_police", "police_init_module"),
    ("act_skbedit", "skbedit_init_module"),
):
    change(
        Path(f"net/sched/{file}.c"),
        (rf"^static int __init (?={start}\(void\)$)", f"int {start}(void);\nint __init "),
        (rf"^module_init\({start}\);?\n", ""),
    )

# A change of a token bucket fills it, so that the head of the queue leaves at once; and whoever waits for tokens at the
# former rate goes on waiting for them. Here the bucket keeps its bytes, and the head is looked at again.
change(
    Path("net/sched/sch_tbf.c"),
    (r"(?<=\treturn register_qdisc\(&tbf_qdisc_ops\))(?=;)", " ?: serial_register()"),
    (r"(?<=\tu64 rate64 = 0, prate64 = 0;\n)", "\ts64 now = 0, tokens = 0;\n"),
    (
        r"(?<=\tsch_tree_lock\(sch\);\n)(?=\tif \(child\) \{\n\t\tqdisc_purge_queue)",
        "\tif (q->rate.rate_bytes_ps) {\n\t\tnow = ktime_get_ns();\n"
        "\t\ttokens = min_t(s64, q->tokens + min_t(s64, now - q->t_c, q->buffer), q->buffer);\n\t}\n",
    ),
    (
        r"\tq->tokens = q->buffer;\n\tq->ptokens = q->mtu;\n(?=\n\tmemcpy)",
        "\tq->tokens = q->buffer;\n\tq->ptokens = q->mtu;\n"
        "\tif (now) {\n\t\ttokens = mul_u64_u64_div_u64(tokens, q->rate.rate_bytes_ps, rate.rate_bytes_ps);\n"
        "\t\tq->tokens = min_t(s64, tokens, q->buffer);\n\t\tq->t_c = now;\n\t}\n",
    ),
    (
        r"(?<=\tmemcpy\(&q->peak, &peak, sizeof\(struct psched_ratecfg\)\);\n)",
        "\tif (now)\n\t\tqdisc_watchdog_schedule_ns(&q->watchdog, now);\n",
    ),
)
put(
    Path("net/sched/sch_tbf.c"),
    r"#include <linux/module\.h>\n",
    behind="#include <linux/math64.h>\n\nint serial_register(void);\n",
)
