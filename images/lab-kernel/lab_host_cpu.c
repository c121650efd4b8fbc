// SPDX-License-Identifier: GPL-2.0
/*
 * What the host does so that the lab kernel can answer CPUID and RDTSC (lab_cpu.c).
 *
 * arch_prctl(ARCH_CPUID, 0) lets CPUID raise SIGSEGV (CPUID faulting: Intel SDM vol. 3, MISC_FEATURES_ENABLES),
 * prctl(PR_SET_TSC) lets RDTSC do so (CR4.TSD). Both belong to a task, and the host switches them when it switches
 * from a task that has them to one that has not: for CPUID by writing a model-specific register, which leaves a
 * virtual machine (1.8 µs; a guest's system call takes two switches, 3.7 µs without that). So the kernel's own
 * process takes them on as well, and nothing is switched. From then on neither instruction may stand in its way:
 * the host's clocks are read by a system call, since the vDSO reads the counter (adapt.py, os-Linux/time.c).
 */
#include <cpuid.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <kern_util.h>
#include <os.h>
#include <lab_cpu.h>

/* Guests see the lab's processor. */
int lab_cpu_fixed;

static int host_has(const struct lab_cpuid *needed, int count)
{
	unsigned int eax, ebx, ecx, edx;

	for (; count; needed++, count--) {
		if (!__get_cpuid_count(needed->leaf, needed->subleaf, &eax, &ebx, &ecx, &edx))
			return 0;
		if ((needed->eax & ~eax) || (needed->ebx & ~ebx) || (needed->ecx & ~ecx) || (needed->edx & ~edx))
			return 0;
	}
	return 1;
}

/* From here on the two instructions fault, in this process and in those of the guests. */
void lab_cpu_take(const struct lab_cpuid *needed, int count)
{
	const char *asked = getenv("LAB_CPU");

	if ((!asked || strcmp(asked, "host") != 0) && host_has(needed, count))
		lab_cpu_fixed = syscall(SYS_arch_prctl, LAB_ARCH_CPUID, 0) == 0;
	/* It stays over execve(2), CPUID faulting does not: the stub asks for that anew (stub_exe.c). */
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0)
		os_warn("the time stamp counter is the host's: errno %d\n", errno);
}
