/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The processor of the lab: what the two sides of User Mode Linux, the kernel's own and the host's, tell each other.
 */
#ifndef __LAB_CPU_H
#define __LAB_CPU_H

#define LAB_CPUID_ANY 0xffffffff
/* arch_prctl(2): <asm/prctl.h>, which the stub cannot include. */
#define LAB_ARCH_CPUID 0x1012

/* CPUID's answers for a leaf: the registers in the order in which the instruction leaves them. */
struct lab_cpuid {
	unsigned int leaf, subleaf;
	unsigned int eax, ebx, ecx, edx;
};

struct seq_file;
struct uml_pt_regs;

/* The kernel's side. */
int lab_cpu_answer(struct uml_pt_regs *regs);
int lab_show_cpuinfo(struct seq_file *m);

/* The host's side. */
extern int lab_cpu_fixed;
void lab_cpu_take(const struct lab_cpuid *needed, int count);
unsigned long long lab_noise(void);

/* Bits of XCR0: x87, SSE, AVX. */
#define LAB_XSTATE_FEATURES 7

#endif
