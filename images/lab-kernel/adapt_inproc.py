"""Maps the lab kernel into every process of a guest: run behind adapt.py, in the kernel's source folder.

lab_inproc.c says how it works and what it relies on. Here are the places of User Mode Linux that hand over between
processes, each with the other way beside it: which one is taken is settled when the kernel starts (LAB_ENTRY).
"""

from pathlib import Path

import call_sites
from edits import UM, add, change, put

X86 = Path("arch/x86/um")
INCLUDE = "#include <lab_inproc.h>\n"

add("lab_inproc.h", UM / "include/shared/lab_inproc.h")
add("lab_size.h", UM / "include/shared/lab_size.h")
add("lab_inproc.c", UM / "os-Linux/skas/lab_inproc.c")
add("lab_entry.S", UM / "os-Linux/skas/lab_entry.S")
add("lab_inproc_kern.c", UM / "kernel/skas/lab_inproc_kern.c")
add("lab_rewrite.h", UM / "include/shared/lab_rewrite.h")
add("lab_rewrite.c", UM / "kernel/skas/lab_rewrite.c")
(UM / "include/shared/lab_sites.h").write_text(call_sites.table())
change(
    UM / "os-Linux/skas/Makefile",
    (r"^obj-y := mem\.o process\.o$", "obj-y := mem.o process.o lab_inproc.o lab_entry.o"),
    (r"^USER_OBJS := \$\(obj-y\)$", "USER_OBJS := mem.o process.o lab_inproc.o"),
)
change(UM / "kernel/skas/Makefile", (r"^obj-y := stub\.o", "obj-y := lab_inproc_kern.o lab_rewrite.o stub.o"))

# The kernel's place: above what programs may map (TASK_SIZE is a multiple of 512 GiB, here 0x7f8000000000), 64 GiB
# above their stacks, and 448 GiB below what the host keeps at the top. What a program can ask for ends below it.
# At this place addresses have more than 32 bits: the linker must leave loads from the offset table as they are, and
# what the compiler adds at the beginning of a static program for the sake of C++ stays away.
change(
    Path("arch/x86/Makefile.um"),
    (r"^START := 0x60000000$", "START := 0x7f9000000000"),
    (
        r"^LINK-y \+= -m64$",
        "LINK-y += -m64 -Wl,--no-relax -nostartfiles "
        "$(foreach part,crt1.o crti.o crtn.o,$(shell $(CC) -print-file-name=$(part)))",
    ),
)
change(
    X86 / "shared/sysdep/faultinfo_64.h",
    (
        r'"movq \$__get_kernel_nofault_faulted_%=,%1\\n"\t\t',
        '"leaq __get_kernel_nofault_faulted_%=(%%rip),%q0; movq %q0,%1\\n"\t',
    ),
    (r'"=r" \(_faulted\)', '"=&r" (_faulted)'),
)
change(UM / "include/asm/pgtable.h", (r"\(TASK_SIZE-2\*PAGE_SIZE\)", "(end_vm)"))
change(
    UM / "kernel/um_arch.c",
    (
        r"max_physmem = TASK_SIZE - uml_physmem - MIN_VMALLOC;",
        "max_physmem = (host_task_size - uml_physmem) / 4 - MIN_VMALLOC;",
    ),
)
change(
    UM / "kernel/mem.c",
    (
        r"max_zone_pfns\[ZONE_NORMAL\] = high_physmem >> PAGE_SHIFT;",
        "max_zone_pfns[ZONE_NORMAL] = (high_physmem - uml_physmem) >> PAGE_SHIFT;",
    ),
)

# The heap is large enough before the memory behind it is given away, and ends where it always does.
script = UM / "kernel/uml.lds.S"
put(script, r"#include <asm/page\.h>\n", behind="#include <shared/lab_size.h>\n")
put(
    script,
    r"  PROVIDE \(end = \.\);\n",
    behind='  ASSERT(_end + 0x40000 <= START + LAB_KERNEL_SIZE, "no room for a heap: see lab_size.h")\n',
)
physmem = UM / "kernel/physmem.c"
put(physmem, r"#include <os\.h>\n", behind=INCLUDE)
put(physmem, r"\tphysmem_fd = create_mem_file\(len\);\n", ahead="\tlab_reserve_heap();\n")

# What the kernel knows of a process of the host; the state of a program's processor where XSAVE can have it.
identity = UM / "include/shared/skas/mm_id.h"
put(identity, r"#include <linux/compiler_types\.h>\n", behind=INCLUDE)
put(identity, r"\tint syscall_data_len;\n", behind="\tstruct lab_host host;\n")
change(
    X86 / "shared/sysdep/ptrace.h",
    (r"\tunsigned long fp\[\];", "\tunsigned long fp[] __attribute__((aligned(64)));"),
)

# Processes of the host are begun and ended at home.
process = UM / "os-Linux/skas/process.c"
put(process, r"#include <lab_cpu\.h>\n", behind=INCLUDE)
put(
    process,
    r"^int start_userspace\(struct mm_id \*mm_id\)\n\{\n",
    behind="\tif (lab_inproc)\n\t\treturn lab_start_process(mm_id);\n\n",
)
put(process, r"^\tinitial_jmpbuf_lock\(\);\n(?=\tif \(UML_SETJMP)", ahead="\tlab_go_home();\n")
mmu = UM / "kernel/skas/mmu.c"
put(mmu, r"#include <stub-data\.h>\n", behind=INCLUDE)
change(mmu, (r"\tunmap\(new_id, 0, STUB_START\);", "\tif (!lab_inproc)\n\t\tunmap(new_id, 0, STUB_START);"))
put(mmu, r"\tif \(mmu->id\.pid > 0\) \{\n", ahead="\tlab_go_home();\n")
reboot = UM / "kernel/reboot.c"
put(reboot, r"#include <os\.h>\n", behind=INCLUDE)
put(reboot, r"^void uml_cleanup\(void\)\n\{\n", behind="\tlab_go_home();\n")
util = UM / "os-Linux/util.c"
put(util, r"#include <os\.h>\n", behind=INCLUDE)
put(util, r"^\tint pid;\n\n(?=\tsignal\(SIGSEGV, SIG_DFL\);)", behind="\tlab_go_home();\n")

# A program runs.
change(
    process,
    (
        r"\t\tif \(using_seccomp\) \{\n(?=\t\t\tstruct stub_data \*proc_data)",
        """\t\tlab_asynchronous();
		if (lab_inproc) {
			struct stub_data *proc_data = (void *) mm_id->stack;

			err = lab_stub_run(mm_id);
			if (err) {
				if (err == -ENOMEM)
					report_enomem();
				printk(UM_KERN_ERR "%s - Error mapping memory: %d", __func__, -err);
				fatal_sigsegv();
			}
			lab_clock_resume(&proc_data->clock);
			sig = lab_run(regs, mm_id, &si_local, singlestepping());
			lab_clock_settle(&proc_data->clock);
			si = &si_local;
			regs->is_user = 1;
		} else if (using_seccomp) {
""",
    ),
)

# Its calls without a signal.
change(
    process,
    (
        r"\t\t\tcase SIGSYS:\n\t\t\t\thandle_syscall\(regs\);",
        "\t\t\tcase SIGSYS:\n\t\t\t\tif (lab_inproc && lab_info)\n\t\t\t\t\tlab_rewrite(regs);\n"
        "\t\t\t\thandle_syscall(regs);",
    ),
)
put(process, r"#include <lab_cpu\.h>\n", behind="#include <lab_rewrite.h>\n")
vdso = X86 / "vdso/vma.c"
put(vdso, r"#include <lab_clock\.h>\n", behind="#include <lab_rewrite.h>\n")
put(vdso, r"^\tmmap_write_unlock\(mm\);\n", ahead="\tlab_rewrite_map(mm);\n")

# Its memory is mapped where it is; files of the host are the same in all its processes.
memory = UM / "os-Linux/skas/mem.c"
put(memory, r"#include <skas\.h>\n", behind=INCLUDE)
put(
    memory,
    r"\tint err, pid = mm_idp->pid;\n",
    behind="\n\tif (lab_inproc)\n\t\treturn lab_stub_run(mm_idp);\n",
)
change(
    memory,
    (r"\tif \(!using_seccomp\)\n\t\treturn fd;", "\tif (!using_seccomp || lab_inproc)\n\t\treturn fd;"),
    (r"\t\tif \(using_seccomp\)\n(?=\t\t\tprev_fd)", "\t\tif (using_seccomp && !lab_inproc)\n"),
)

# The kernel's virtual mappings: each process of the host follows.
tlb = UM / "kernel/tlb.c"
put(tlb, r"#include <kern_util\.h>\n", behind=INCLUDE)
change(
    tlb,
    (
        r"\treturn (os_map_memory\(.*?\);\n)",
        "\tint err;\n\n\tlab_mappings_changed();\n"
        "\terr = os_map_memory((void *)virt, phys_fd, offset, len, prot & UM_PROT_READ,\n"
        "\t\t\t    prot & UM_PROT_WRITE, prot & UM_PROT_EXEC);\n"
        "\tlab_protect_mapping(virt, len);\n\treturn err;\n",
    ),
)
put(tlb, r"\treturn os_unmap_memory\(", ahead="\tlab_mappings_changed();\n")
trap = UM / "kernel/trap.c"
put(trap, r"#include <skas\.h>\n", behind=INCLUDE)
put(
    trap,
    r'\t\t\tpanic\("Failed to sync kernel TLBs: %d", err\);\n',
    behind="\t\tif (lab_inproc)\n\t\t\tlab_vm_fault(address, ip);\n",
)

# A process of the host that somebody else ended ends the kernel, in whatever it was about: with its interrupts off, or
# before it knew the number of a process that had just begun, it would wait for one that is no more.
put(mmu, r'^\t+printk\("Unexpectedly lost MM child!', ahead="\t\t\t\tlab_lost(pid, lab_reaped);\n")
put(process, r"^\tdo \{\n(?=\t\tconst char byte = 0;)", ahead="\tlab_waited = mm_idp;\n")
change(
    process,
    (r"^\treturn;\n\nout_kill:\n", "\tlab_waited = NULL;\n\treturn;\n\nout_kill:\n\tlab_waited = NULL;\n"),
    (
        r"^(\tmm_id->pid = clone\(userspace_tramp,.*?\);\n)",
        "\tint enabled = um_set_signals(0);\n\n\tmm_id->pid = clone(userspace_tramp, (void *) sp,\n"
        "\t\t    CLONE_VFORK | CLONE_VM | SIGCHLD,\n\t\t    (void *)&tramp_data);\n\tum_set_signals(enabled);\n",
    ),
)

# Signals from outside come home.
signal = UM / "os-Linux/signal.c"
put(signal, r"#include <timetravel\.h>\n", behind=INCLUDE)
put(
    signal,
    r"^void set_handler\(int sig\)\n",
    ahead="""void lab_hard_handler(int sig, siginfo_t *si, void *p);

void lab_hard_handler(int sig, siginfo_t *si, void *p)
{
	hard_handler(sig, si, p);
}

void lab_irq(int sig)
{
	sig_handler(sig, NULL, NULL);
}

static void home_handler(int sig, siginfo_t *si, void *p)
{
	if (!lab_home_signal(sig))
		hard_handler(sig, si, p);
}

""",
)
change(signal, (r"action\.sa_sigaction = hard_handler;", "action.sa_sigaction = home_handler;"))
host_process = UM / "os-Linux/process.c"
put(host_process, r"#include <skas/skas\.h>\n", behind=INCLUDE)
change(
    host_process,
    (r"\treturn syscall\(__NR_getpid\);", "\treturn lab_inproc ? lab_home_pid : syscall(__NR_getpid);"),
    (
        r"\treturn waitpid\(-1, &status, WNOHANG\);",
        "\tpid_t pid = waitpid(-1, &status, WNOHANG);\n\n\tlab_reaped = status;\n\treturn pid;",
    ),
)
main = UM / "os-Linux/main.c"
put(main, r"#include <um_malloc\.h>\n", behind=INCLUDE)
put(main, r"^static void last_ditch_exit\(int sig\)\n\{\n", behind="\tlab_take_over();\n")
# What the C library asks for is the kernel's memory, which every process of the host has at once, not its virtual
# mappings: the host's kernel cannot follow those (readdir(3) hands it a buffer of 32 kB).
change(main, (r"size <= UM_KERN_PAGE_SIZE\)", "size <= 32 * UM_KERN_PAGE_SIZE)"))
