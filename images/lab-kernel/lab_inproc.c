// SPDX-License-Identifier: GPL-2.0
/*
 * The lab kernel in every process: the host's side.
 *
 * User Mode Linux has a process of the host for each address space of the guest, and one of its own. Each system call
 * of a program is handed over between two of them: two futex calls, two switches, a signal frame there and back. Here
 * the kernel's memory is mapped in all of them. A system call is a signal (syscall user dispatch: prctl(2)) whose
 * handler switches to the kernel's stack; back to the program it is a jump. Only when the kernel turns to a program with
 * another address space it goes on in another process of the host, with the same stack (lab_transfer). Calls that are
 * made often come without a signal (lab_rewrite.c), unless LAB_ENTRY=trap asks for signals alone.
 *
 * What this relies on:
 * - The kernel's image and its heap become a mapping of the memory file, which has the guest's memory already, so that
 *   a process cloned from home shares them all (lab_inproc_take). Only home's stack stays private: nobody needs it.
 *   The C library's thread data are in that heap; every process of the host has the kernel's FS base when in the kernel.
 * - The kernel's addresses are above what programs may map (adapt_inproc.py): neither MAP_FIXED nor brk(2) reaches them.
 * - The host lets everybody write FS and GS bases (Linux 5.9), and has syscall user dispatch (Linux 5.11).
 * - One processor: the kernel is in one process of the host at a time.
 *
 * Which signals go where: home takes those from outside, as ever. While the kernel is elsewhere it only notes them
 * (lab_home_signal), and the kernel looks at the notes when it has come back from a program. Other processes of the
 * host have all signals blocked but those that an instruction raises.
 *
 * What a program can do wrong: while it runs, the kernel's memory has a protection key (pkeys(7)) that it has no right
 * to, so that a wild pointer faults, as it would anywhere else.
 *
 * Where the processor has no such keys, or LAB_ENTRY=unprotected asks to do without, the kernel's code and constants are
 * read-only in a program's process. The rest lies 64 GiB above the program's stack, with nothing mapped in between, so
 * that no overrun of the program's own memory ends there. A wild pointer could still point there. So at every
 * LOOK_EVERY-th entry the kernel compares the sum of its data before and after the program ran (lab_run). A kernel that
 * finds a difference ends, and the harness makes the run again with programs in other processes, as it does after every
 * unexpected end of such a kernel (harness/engine/virtual/engine.py).
 */
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>
#include <asm/unistd.h>
#include <as-layout.h>
#include <kern_util.h>
#include <mem.h>
#include <mem_user.h>
#include <os.h>
#include <skas.h>
#include <stub-data.h>
#include <sysdep/mcontext.h>
#include <sysdep/ptrace.h>
#include <sysdep/stub.h>
#include <timetravel.h>
#include <lab_inproc.h>
#include <lab_rewrite.h>
#include <lab_size.h>
#include "../internal.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif
#ifndef HWCAP2_FSGSBASE
#define HWCAP2_FSGSBASE 2
#endif
#ifndef CLONE_FS
#define CLONE_FS 0x200
#endif
/* Where the host's addresses for programs end. */
#define HOST_END 0x7ffffffff000ul
/* Bytes at the end of an address space's page for the last registers of its program. */
#define LAST 128
/*
 * Without protection keys: entries of programs between two looks at the kernel's data. A look takes about 0.4 ms, an
 * entry 0.34 us: so looks cost a seventh of the entries' time.
 */
#define LOOK_EVERY 8192

_Static_assert(offsetof(struct lab_host, futex) == LAB_HOST_FUTEX && offsetof(struct lab_host, sp) == LAB_HOST_SP,
	       "lab_entry.S has other offsets");
_Static_assert(HOST_R15 == 0 && HOST_BX == 5 && HOST_R11 == 6 && HOST_AX == 10 && HOST_CX == 11 && HOST_DX == 12 &&
	       HOST_DI == 14 && HOST_IP == 16 && HOST_CS == 17 && HOST_EFLAGS == 18 && HOST_SP == 19 && HOST_SS == 20 &&
	       HOST_FS_BASE == 21 && HOST_GS_BASE == 22, "lab_entry.S has other registers");

int lab_inproc;
int lab_home_pid;

/*
 * The C library calls these if they are there, by a distance of 32 bits, which does not reach the 0 that they would be.
 * None has anything to do: no thread ends, fork(2) is not called, and nothing is printed into an obstack.
 */
#define NOTHING(name) \
	void name(void); \
	void name(void) \
	{ \
	}
NOTHING(__call_tls_dtors)
NOTHING(__glibc_tls_internal_free)
NOTHING(__mq_notify_fork_subprocess)
NOTHING(__printf_buffer_flush_dprintf)
NOTHING(__printf_buffer_flush_obstack)
NOTHING(__pthread_initialize_minimal)

static struct lab_host home;
/* Where the kernel is. */
static struct lab_host *here = &home;
/* The protection key of the kernel's memory in programs' processes; 0 where the processor has none. */
static int key;
/* Rises with each change of the kernel's virtual mappings. */
static int generation;
/* Signals from outside that home has noted: bits. */
static int noted;
/* A process of the host ended while home's interrupts were off. */
static int ended;
/* Signals that home took while the kernel was elsewhere. */
static unsigned long home_signals;
/* Whether the kernel's data are compared: there is no key for them. */
static int looking;
/* Entries of programs so far. */
static unsigned long entries;

/* Whose process the kernel waits for, where it enters programs from another process. */
struct mm_id *lab_waited;
/* How the child ended that was reaped last. */
int lab_reaped;

/* lab_entry.S */
unsigned long lab_enter_sp, lab_kernel_fs, lab_fault_top;
unsigned long lab_info, lab_context;
int lab_signal, lab_outside;
/* Where a call by jump leaves a program's registers. */
unsigned long *lab_gp, *lab_fp;
/* The host's own default: every key but 0 is out of reach. */
unsigned int lab_program_keys;
static char fault_stack[32768] __attribute__((aligned(64)));

void lab_transfer(struct lab_host *from, struct lab_host *to);
void lab_park(struct lab_host *own);
void lab_enter(unsigned long *gp, void *fp, void *last);
void lab_trap(int sig, siginfo_t *info, void *context);
void lab_trap_keys(int sig, siginfo_t *info, void *context);
void lab_restorer(void);
/* A part of the kernel's memory, from where that starts. */
struct lab_part {
	unsigned long offset, length;
};

long lab_share(int fd, unsigned long start, unsigned long length, void *copy, const struct lab_part *parts, int count);
void lab_kernel_trap(int sig, siginfo_t *info, void *context);
/* signal.c */
void lab_hard_handler(int sig, siginfo_t *info, void *context);

extern char _text[], __end_rodata[], __init_end[], __bss_stop[];
extern unsigned long task_size;

void lab_kernel_trap(int sig, siginfo_t *info, void *context)
{
	lab_hard_handler(sig, info, context);
}

/* Whoever ended while home's interrupts were off: the kernel is about to wait for one of them, perhaps. */
static void look_for_ended(void)
{
	int pid, status;

	ended = 0;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (lab_program_of(pid))
			lab_lost(pid, status);
}

/* Go on in another process of the host. */
static void go(struct lab_host *to)
{
	struct lab_host *from = here;

	if (from == to)
		return;
	here = to;
	/* From now on home does not only note it when a process ends (lab_home_signal). */
	if (ended && from == &home)
		look_for_ended();
	lab_transfer(from, to);
	if (to->generation != generation) {
		/* What is needed is mapped anew when it is touched (lab_vm_fault). */
		stub_syscall2(__NR_munmap, start_vm, end_vm - start_vm);
		to->generation = generation;
	}
}

/* Whatever clones, waits for, or ends processes of the host does so from where the kernel began. */
void lab_go_home(void)
{
	if (lab_inproc)
		go(&home);
}

/* The kernel's virtual mappings were changed, here: other processes follow when the kernel comes to them. */
void lab_mappings_changed(void)
{
	if (lab_inproc)
		here->generation = ++generation;
}

/* Why guests cannot be entered this way on this host; NULL if they can. */
static const char *obstacle(void)
{
	const char *asked = getenv("LAB_ENTRY");
	int unprotected = asked && strcmp(asked, "unprotected") == 0;

	if (!using_seccomp || time_travel_mode != TT_MODE_INFCPU)
		return "";
	if (asked && strcmp(asked, "inproc") != 0 && strcmp(asked, "trap") != 0 && !unprotected)
		return "";
	if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE))
		return "programs may not write the FS base";
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, _text, __end_rodata - _text, 0) != 0)
		return "there is no syscall user dispatch";
	prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
	key = unprotected ? 0 : syscall(__NR_pkey_alloc, 0, 0);
	if (key <= 0) {
		key = 0;
		looking = 1;
	}
	return NULL;
}

/*
 * Before the kernel hands out all memory behind the C library's heap: what the library may take later is part of the
 * heap already. More would be mapped in one process of the host alone.
 *
 * Image and heap end at the same place in every lab kernel. By what is left the kernel sizes TCP's and UDP's buffers
 * (tcp_mem), and a sender that fills them would else notice a few pages.
 */
void lab_reserve_heap(void)
{
	unsigned long end = uml_physmem + LAB_KERNEL_SIZE, now = (unsigned long)sbrk(0);
	/* Else the compiler leaves both calls out. */
	void *volatile memory;

	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	mallopt(M_MMAP_THRESHOLD, 16 << 20);
	/* The library takes 128 kB more than it is asked for. */
	if (now + (256 << 10) < end) {
		memory = malloc(end - now - (160 << 10));
		free(memory);
	}
	now = (unsigned long)sbrk(0);
	if (now < end && sbrk(end - now) == (void *)-1)
		os_warn("the kernel's heap cannot grow: %s\n", strerror(errno));
}

/* What is mapped in [start, end) of this process: the image's segments and the heap. How many parts; -1 for too many. */
static int mapped_parts(unsigned long start, unsigned long end, struct lab_part *parts, int room)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long low, high;
	char line[512];
	int count = 0;

	if (!maps)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &low, &high) != 2 || low < start || low >= end)
			continue;
		if (count == room) {
			count = -1;
			break;
		}
		parts[count].offset = low - start;
		parts[count++].length = (high < end ? high : end) - low;
	}
	fclose(maps);
	return count;
}

/*
 * The C library has told the host of an area where it wants to know which processor it is on (rseq(2)). The host would
 * write there while a program runs, whose rights it goes by. How long the library said that is, it does not say.
 */
static void forget_rseq(void)
{
	unsigned long area = (unsigned long)__builtin_thread_pointer() + __rseq_offset;
	int length;

	for (length = 32; length <= 512; length += 4)
		if (syscall(__NR_rseq, area, length, 1 /* RSEQ_FLAG_UNREGISTER */, RSEQ_SIG) == 0)
			return;
}

/* How this kernel runs, for who started it: programs cannot see it, and it changes nothing that they do. */
static void tell(const char *entry, const char *why)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	FILE *file;

	if (!folder || snprintf(path, sizeof(path), "%s/entered", folder) >= (int)sizeof(path))
		return;
	file = fopen(path, "w");
	if (!file)
		return;
	/* Whoever mounted that folder says of what pages its files are (sandbox.c). */
	fprintf(file, "%s%s%s, %s pages\n", entry, *why ? ": " : "", why, getenv("LAB_HUGE") ? "huge" : "small");
	fclose(file);
}

/*
 * [start, end), the image and the heap, become a mapping of the memory file, whose beginning is kept for them. Called
 * before there are any programs, and with nothing on its way that could write meanwhile.
 */
void lab_inproc_take(int fd, unsigned long start, unsigned long end)
{
	const char *why = obstacle(), *asked = getenv("LAB_ENTRY");
	struct lab_part parts[32];
	sigset_t all, before;
	char *copy = NULL;
	long mapped;
	int count = 0;

	if (!why) {
		count = mapped_parts(start, end, parts, sizeof(parts) / sizeof(parts[0]));
		copy = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (count < 0 || copy == MAP_FAILED)
			why = "the memory file cannot be mapped";
	}
	if (why) {
		tell("host", why);
		return;
	}
	forget_rseq();
	asm volatile("rdfsbase %0" : "=r" (lab_kernel_fs));
	lab_fault_top = (unsigned long)fault_stack + sizeof(fault_stack) - 64;
	lab_home_pid = getpid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	mapped = lab_share(fd, start, end - start, copy, parts, count);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (mapped != (long)start) {
		os_warn("the kernel cannot be mapped from the memory file: errno %ld\n", -mapped);
		exit(1);
	}
	munmap(copy, end - start);
	if (key)
		lab_program_keys = 0x55555554;
	lab_inproc = 1;
	lab_rewriting = !asked || strcmp(asked, "trap") != 0;
	tell(lab_rewriting ? "inproc" : "trap", looking ? "the kernel's memory is unprotected" : "");
}

/* Rights to memory of the kernel in a program's process, and its key. */
static long protect(unsigned long start, unsigned long end, int rights)
{
	if (key)
		return stub_syscall4(__NR_pkey_mprotect, start, end - start, rights, key);
	return stub_syscall3(__NR_mprotect, start, end - start, rights);
}

/* What the kernel has mapped of its own just now, in a program's process. */
void lab_protect_mapping(unsigned long start, unsigned long length)
{
	if (key && here != &home && protect(start, start + length, PROT_READ | PROT_WRITE))
		panic("the kernel's memory at %#lx cannot be protected", start);
}

struct kernel_sigaction {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

/*
 * What a new process of the host is told. It stands above its first stack, so that each has its own: home goes on at
 * once, and may start the next before this one has had a look.
 */
struct beginning {
	struct lab_host *host;
	/* Where the page of its address space is. */
	int fd;
	unsigned long long offset;
};

/*
 * The page of an address space that the host's signal frames and the last registers of a program are in, as the program
 * could see it: in the kernel's own memory the host could not write a frame, once that has a key.
 */
static struct stub_data *seen(void)
{
	return (void *)STUB_DATA;
}

/* A new process of the host, which has the kernel's memory: raw system calls only, its memory is home's as well. */
static int begin(void *argument)
{
	static const int traps[] = { SIGSEGV, SIGSYS, SIGTRAP, SIGILL, SIGFPE, SIGBUS };
	struct beginning own = *(struct beginning *)argument;
	struct kernel_sigaction action = {
		.handler = key ? lab_trap_keys : lab_trap,
		.flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO | 0x04000000 /* SA_RESTORER */,
		.restorer = lab_restorer,
	};
	struct {
		void *sp;
		int flags;
		size_t size;
	} stack = { .sp = seen(), .size = sizeof(struct stub_data) - LAST };
	unsigned long blocked = ~0ul;
	long failed = 0;
	unsigned int i;

	stub_syscall2(__NR_prctl, PR_SET_NAME, (unsigned long)"uml-userspace");
	failed |= stub_syscall2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL);
	/* What home has beside the kernel is its stack, and what the host put there. */
	failed |= stub_syscall2(__NR_munmap, 0, uml_physmem);
	failed |= stub_syscall2(__NR_munmap, end_vm, STUB_DATA - end_vm);
	if (STUB_END < HOST_END)
		failed |= stub_syscall2(__NR_munmap, STUB_END, HOST_END - STUB_END);
	failed |= stub_syscall6(__NR_mmap, STUB_DATA, STUB_DATA_PAGES * UM_KERN_PAGE_SIZE, PROT_READ | PROT_WRITE,
				MAP_FIXED | MAP_SHARED, own.fd, own.offset) != (long)STUB_DATA;
	failed |= stub_syscall2(__NR_sigaltstack, (unsigned long)&stack, 0);
	for (i = 0; i < sizeof(traps) / sizeof(traps[0]); i++) {
		blocked &= ~(1ul << (traps[i] - 1));
		failed |= stub_syscall4(__NR_rt_sigaction, traps[i], (unsigned long)&action, 0, 8);
	}
	failed |= stub_syscall4(__NR_rt_sigprocmask, SIG_SETMASK, (unsigned long)&blocked, 0, 8);
	failed |= protect(uml_physmem, (unsigned long)_text, PROT_READ);
	failed |= protect((unsigned long)_text, (unsigned long)__end_rodata, PROT_READ | PROT_EXEC);
	failed |= protect((unsigned long)__end_rodata, high_physmem, PROT_READ | PROT_WRITE);
	failed |= stub_syscall5(__NR_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, (unsigned long)_text,
				__end_rodata - _text, 0);
	if (failed)
		stub_syscall1(__NR_exit_group, 1);
	lab_park(own.host);
	return 0;
}

/* As start_userspace(): a process of the host for an address space. */
int lab_start_process(struct mm_id *id)
{
	struct stub_data *data = (void *)id->stack;
	/* Until it waits the new process needs a stack: the one that signals will have. */
	struct beginning *own = (void *)(data->sigstack + sizeof(data->sigstack) - 64);
	int enabled;

	_Static_assert(sizeof(*own) <= 64, "no room above the first stack");
	go(&home);
	/* It follows nothing of the kernel's virtual mappings yet, but what home has. */
	id->host = (struct lab_host) { .generation = -1 };
	own->host = &id->host;
	own->fd = phys_mapping(uml_to_phys(data), &own->offset);
	/* Who ends before its number is known here is looked for when it is. */
	enabled = um_set_signals(0);
	id->pid = clone(begin, own, CLONE_FILES | CLONE_FS | SIGCHLD, own);
	um_set_signals(enabled);
	id->sock = 0;
	id->host.pid = id->pid;
	return id->pid < 0 ? -errno : 0;
}

/* Map and unmap what is due in an address space, in its own process. As do_syscall_stub(): 0, or what went wrong. */
int lab_stub_run(struct mm_id *id)
{
	struct stub_data *data = (void *)id->stack;
	struct stub_syscall *one;
	long result = 0;
	int i;

	if (id->syscall_data_len <= 0)
		return id->syscall_data_len;
	go(&id->host);
	for (i = 0; i < id->syscall_data_len && !result; i++) {
		one = &data->syscall_data[i];
		if (one->mem.addr >= STUB_START || one->mem.length > STUB_START - one->mem.addr ||
		    (one->mem.addr + one->mem.length > task_size && one->syscall == STUB_SYSCALL_MMAP))
			panic("an address space reaches %#lx, which is the kernel's", one->mem.addr + one->mem.length);
		if (one->syscall == STUB_SYSCALL_MMAP) {
			result = stub_syscall6(__NR_mmap, one->mem.addr, one->mem.length, one->mem.prot,
					       MAP_SHARED | MAP_FIXED, one->mem.fd, one->mem.offset);
			if (result == (long)one->mem.addr)
				result = 0;
		} else {
			if (one->mem.addr + one->mem.length > task_size)
				one->mem.length = task_size - one->mem.addr;
			result = stub_syscall2(__NR_munmap, one->mem.addr, one->mem.length);
		}
	}
	id->syscall_data_len = result < 0 ? result : 0;
	id->syscall_fd_num = 0;
	return id->syscall_data_len;
}

/* What a number of up to 8 bytes, aligned to its size, adds to the sum of the words that it is part of. */
static unsigned long addend(const void *number, unsigned long value)
{
	return value << (8 * ((unsigned long)number & 7));
}

/*
 * The sum of the words of the kernel's data, without what lab_entry.S writes between lab_enter and its return. A write to
 * one word always changes it.
 */
static unsigned long data_sum(void)
{
	const unsigned long *word = (const unsigned long *)(((unsigned long)__init_end + 7) & ~7ul);
	const unsigned long *end = (const unsigned long *)((unsigned long)__bss_stop & ~31ul);
	unsigned long a = 0, b = 0, c = 0, d = 0;

	for (; (unsigned long)word & 31; word++)
		a += *word;
	for (; word < end; word += 4) {
		a += word[0];
		b += word[1];
		c += word[2];
		d += word[3];
	}
	return a + b + c + d - addend(&lab_outside, (unsigned int)lab_outside) -
	       addend(&lab_signal, (unsigned int)lab_signal) - lab_info - lab_context - lab_enter_sp - lab_jumped;
}

/* A program wrote into the kernel's data: the kernel ends, with the program's name. */
static void end_damaged(struct mm_id *id)
{
	const char *who = lab_program_of(id->pid);
	char line[256];
	int length;

	go(&home);
	length = snprintf(line, sizeof(line), "Kernel panic - not syncing: %s wrote into the kernel's memory\n",
			  who ? who : "a program");
	if (write(STDOUT_FILENO, line, length) < 0)
		_exit(2);
	_exit(1);
}

/* A handler of home's may be about to write: it has had the time to say so after this. */
static void await_home(void)
{
	struct timespec pause = { .tv_nsec = 20000000 };

	stub_syscall2(__NR_nanosleep, (unsigned long)&pause, 0);
}

/* As lab_enter, and look whether the kernel's data are the same afterwards. Home's signal handlers may change them. */
static void enter_and_look(struct uml_pt_regs *regs, struct mm_id *id)
{
	unsigned long signals = __atomic_load_n(&home_signals, __ATOMIC_SEQ_CST), before = data_sum();

	lab_enter(regs->gp, regs->fp, seen() + 1);
	if (data_sum() == before)
		return;
	await_home();
	if (__atomic_load_n(&home_signals, __ATOMIC_SEQ_CST) == signals)
		end_damaged(id);
}

/*
 * Let a program run until it traps, or calls by jump: what by (a signal's number; SIGSYS for a call) and its siginfo_t,
 * which a call by jump has none of. Its registers are there and back in regs.
 */
int lab_run(struct uml_pt_regs *regs, struct mm_id *id, void *info, int single_step)
{
	mcontext_t *context;

	go(&id->host);
	regs->gp[HOST_EFLAGS] &= ~0x100ul;
	if (single_step)
		regs->gp[HOST_EFLAGS] |= 0x100;
	lab_gp = regs->gp;
	lab_fp = regs->fp;
	if (looking && entries++ % LOOK_EVERY == 0)
		enter_and_look(regs, id);
	else
		lab_enter(regs->gp, regs->fp, seen() + 1);
	if (!lab_info) {
		PT_SYSCALL_NR(regs->gp) = regs->gp[HOST_AX];
		return SIGSYS;
	}
	context = &((ucontext_t *)lab_context)->uc_mcontext;
	get_regs_from_mc(regs, context);
	memcpy(regs->fp, context->fpregs, host_fp_size);
	memcpy(info, (void *)lab_info, sizeof(siginfo_t));
	PT_SYSCALL_NR(regs->gp) = ((siginfo_t *)info)->si_syscall;
	if (lab_signal == SIGSEGV)
		GET_FAULTINFO_FROM_MC(regs->faultinfo, context);
	return lab_signal;
}

/* The kernel goes on at home whatever it was about: whoever had it is ended. For signals that end everything. */
void lab_take_over(void)
{
	struct lab_host *host = here;

	if (!lab_inproc || host == &home)
		return;
	here = &home;
	os_kill_process(host->pid, 1);
}

/*
 * The process of an address space ended that nobody ended here: so does the kernel. Where programs are entered from
 * another process, one that wrote into its own stub may have ended it by a fault: then it alone dies (mmu.c). One that
 * the sandbox's filter of system calls ended has left its guest.
 */
void lab_lost(int pid, int status)
{
	const char *how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended by itself";
	const char *who;
	char line[256];
	int length;

	if (!lab_inproc && !(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGSYS)))
		return;
	lab_take_over();
	who = lab_program_of(pid);
	length = snprintf(line, sizeof(line), "Kernel panic - not syncing: lost the process of the host behind %s: %s\n",
			  who ? who : "a program", how);
	if (write(STDOUT_FILENO, line, length) < 0)
		_exit(2);
	_exit(1);
}

/*
 * The kernel waits for a process, and somebody killed it. With its interrupts off it would not hear of that, and wait
 * for ever.
 */
static void look_at_waited(void)
{
	siginfo_t info = { .si_pid = 0 };

	if (lab_waited->pid > 0 && waitid(P_PID, lab_waited->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    info.si_pid && (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED))
		lab_lost(info.si_pid, info.si_status);
}

/* In home, a signal from outside: whether it is only noted, since the kernel is in another process. */
int lab_home_signal(int sig)
{
	int pid, status;

	if (here == &home) {
		if (sig == SIGCHLD && lab_waited)
			look_at_waited();
		if (sig == SIGCHLD && lab_inproc && !signals_enabled)
			ended = 1;
		return 0;
	}
	__atomic_fetch_add(&home_signals, 1, __ATOMIC_SEQ_CST);
	if (sig == SIGCHLD) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid > 0)
			lab_lost(pid, status);
		return 1;
	}
	if (sig != SIGIO)
		return 0;
	__atomic_fetch_or(&noted, 1 << sig, __ATOMIC_SEQ_CST);
	return 1;
}

/* What home has noted is dealt with. */
void lab_asynchronous(void)
{
	if (noted && (__atomic_exchange_n(&noted, 0, __ATOMIC_SEQ_CST) & (1 << SIGIO)))
		lab_irq(SIGIO);
}
