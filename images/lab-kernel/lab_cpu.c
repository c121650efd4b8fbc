// SPDX-License-Identifier: GPL-2.0
/*
 * One processor for every guest, whatever the host's is.
 *
 * Programs choose by CPUID which code they run and where they take random numbers from (RDRAND), and some read
 * the time from RDTSC. In virtual time both instructions fault in a guest's processes (lab_host_cpu.c), and are
 * answered here: CPUID from a fixed table of an x86-64-v3 processor without RDRAND, RDSEED, AVX-512 and AMX,
 * RDTSC and RDTSCP from virtual time. AT_HWCAP, AT_PLATFORM, /proc/cpuinfo and the size of a signal frame say
 * the same. Where the host cannot let CPUID fault, or lacks what the table promises, guests see the host's
 * processor, but for the time stamp counter; /proc/lab/cpu says which it is.
 *
 * What cannot be hidden: XGETBV shows the host's XCR0 (nobody who asks CPUID first uses more than AVX of it), and
 * a program that uses an instruction without asking CPUID gets it.
 */
#include <linux/elf.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <asm/cpufeature.h>
#include <asm/ptrace.h>
#include <as-layout.h>
#include <os.h>
#include <skas.h>
#include <lab_clock.h>
#include <lab_cpu.h>
#include <lab_inproc.h>
#include <lab_witness.h>

/*
 * The architecture is AMD's as it was in 2019 (family 17h, model 31h: Zen 2), reduced to what x86-64-v3 and TLS
 * need (psABI; Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E), and to one core. Two lines are not as any
 * processor has them: there is no XSAVEC, and the area of XSAVE is as large as that of a host with AVX-512 and
 * protection keys, since XSAVE writes all that the host's XCR0 has, whatever a program believes.
 */
static const struct lab_cpuid table[] = {
	/* highest leaf; "AuthenticAMD" */
	{ 0x00000000, LAB_CPUID_ANY, 0x0000000d, 0x68747541, 0x444d4163, 0x69746e65 },
	/* family 17h, model 31h; one logical processor, CLFLUSH of 64 bytes;
	 * SSE3 PCLMULQDQ SSSE3 FMA CX16 SSE4.1 SSE4.2 MOVBE POPCNT AES XSAVE OSXSAVE AVX F16C */
	{ 0x00000001, LAB_CPUID_ANY, 0x00830f10, 0x00010800, 0x3ed83203, 0x078bfbff },
	/* BMI1 AVX2 BMI2 */
	{ 0x00000007, 0, 0x00000000, 0x00000128, 0x00000000, 0x00000000 },
	/* one thread of one core */
	{ 0x0000000b, 0, 0x00000000, 0x00000001, 0x00000100, 0x00000000 },
	{ 0x0000000b, 1, 0x00000000, 0x00000001, 0x00000201, 0x00000000 },
	/* x87, SSE and AVX; XSAVEOPT; 256 bytes of AVX at 576 */
	{ 0x0000000d, 0, LAB_XSTATE_FEATURES, 0x00000b00, 0x00000b00, 0x00000000 },
	{ 0x0000000d, 1, 0x00000001, 0x00000000, 0x00000000, 0x00000000 },
	{ 0x0000000d, 2, 0x00000100, 0x00000240, 0x00000000, 0x00000000 },
	{ 0x80000000, LAB_CPUID_ANY, 0x8000001e, 0x68747541, 0x444d4163, 0x69746e65 },
	/* LAHF ABM PREFETCHW TOPOEXT; SYSCALL NX MMXEXT PDPE1GB RDTSCP LM */
	{ 0x80000001, LAB_CPUID_ANY, 0x00830f10, 0x00000000, 0x00400121, 0x2dd3fbff },
	/* "quic-lab processor (x86-64-v3, virtual time)" */
	{ 0x80000002, LAB_CPUID_ANY, 0x63697571, 0x62616c2d, 0x6f727020, 0x73736563 },
	{ 0x80000003, LAB_CPUID_ANY, 0x2820726f, 0x2d363878, 0x762d3436, 0x76202c33 },
	{ 0x80000004, LAB_CPUID_ANY, 0x75747269, 0x74206c61, 0x29656d69, 0x00000000 },
	/* caches: 32 kB of data and of instructions, 512 kB, 16 MB */
	{ 0x80000005, LAB_CPUID_ANY, 0xff40ff40, 0xff40ff40, 0x20080140, 0x20080140 },
	{ 0x80000006, LAB_CPUID_ANY, 0x48006400, 0x68006400, 0x02006140, 0x00809140 },
	/* the time stamp counter runs at one rate */
	{ 0x80000007, LAB_CPUID_ANY, 0x00000000, 0x00000000, 0x00000000, 0x00000100 },
	{ 0x80000008, LAB_CPUID_ANY, 0x00003030, 0x00000000, 0x00000000, 0x00000000 },
	{ 0x8000001d, 0, 0x00000121, 0x01c0003f, 0x0000003f, 0x00000000 },
	{ 0x8000001d, 1, 0x00000122, 0x01c0003f, 0x0000003f, 0x00000000 },
	{ 0x8000001d, 2, 0x00000143, 0x01c0003f, 0x000003ff, 0x00000002 },
	{ 0x8000001d, 3, 0x00000163, 0x03c0003f, 0x00003fff, 0x00000001 },
};

/* What of the table is instructions that the host must have: the bits of these leaves' registers. */
static const struct lab_cpuid needed[] = {
	{ 0x00000001, 0, 0, 0, 0x3ed83203, 0x07808101 },
	{ 0x00000007, 0, 0, 0x00000128, 0, 0 },
	{ 0x0000000d, 1, 0x00000001, 0, 0, 0 },
	{ 0x80000001, 0, 0, 0, 0x00000121, 0x28000800 },
};

static void cpuid(unsigned int leaf, unsigned int subleaf, unsigned int out[4])
{
	int i;

	memset(out, 0, 4 * sizeof(out[0]));
	/* Beyond the levels of a topology a processor repeats the level it was asked for. */
	if (leaf == 0x0000000b)
		out[2] = subleaf & 0xff;
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].leaf != leaf || (table[i].subleaf != LAB_CPUID_ANY && table[i].subleaf != subleaf))
			continue;
		out[0] = table[i].eax;
		out[1] = table[i].ebx;
		out[2] = table[i].ecx;
		out[3] = table[i].edx;
	}
}

/*
 * The counter counts ns of virtual time. A look at it costs as much as one at the clock, and up to as much again
 * by a seeded generator: who gathers entropy from the jitter of a counter (the CPU Jitter Random Number Generator
 * in AWS-LC) refuses one without.
 */
static unsigned long long time_stamp(void)
{
	return lab_time(LAB_CLOCK_COST + lab_noise() % LAB_CLOCK_COST);
}

static void answer_time_stamp(struct uml_pt_regs *regs)
{
	unsigned long long value = time_stamp();

	regs->gp[HOST_AX] = (unsigned int)value;
	regs->gp[HOST_DX] = value >> 32;
	lab_trace(LAB_TRACE_RDTSC, 0, value);
}

/* Whether a general protection fault of a guest's process was one of our instructions; then it is done. */
int lab_cpu_answer(struct uml_pt_regs *regs)
{
	unsigned char code[8] = { 0 };
	unsigned int out[4];
	unsigned long left = copy_from_user(code, (void __user *)UPT_IP(regs), sizeof(code));
	unsigned int have = sizeof(code) - left, at = 0;

	/* Prefixes without a meaning here: operand size, REP, REX. */
	while (at < have && (code[at] == 0x66 || code[at] == 0xf2 || code[at] == 0xf3 || (code[at] & 0xf0) == 0x40))
		at++;
	if (at + 2 > have || code[at] != 0x0f)
		return 0;
	if (code[at + 1] == 0xa2 && lab_cpu_fixed) {
		cpuid(regs->gp[HOST_AX], regs->gp[HOST_CX], out);
		regs->gp[HOST_AX] = out[0];
		regs->gp[HOST_BX] = out[1];
		regs->gp[HOST_CX] = out[2];
		regs->gp[HOST_DX] = out[3];
		at += 2;
		lab_trace(LAB_TRACE_CPUID, 0, out[0]);
	} else if (code[at + 1] == 0x31) {
		answer_time_stamp(regs);
		at += 2;
	} else if (at + 3 <= have && code[at + 1] == 0x01 && code[at + 2] == 0xf9) {
		answer_time_stamp(regs);
		/* TSC_AUX: processor 0. */
		regs->gp[HOST_CX] = 0;
		at += 3;
	} else {
		return 0;
	}
	UPT_IP(regs) += at;
	return 1;
}

/* /proc/cpuinfo as x86 has it, for the processor of the table. 0 where guests see the host's. */
int lab_show_cpuinfo(struct seq_file *m)
{
	if (!lab_cpu_fixed)
		return 0;
	seq_puts(m,
		 "processor\t: 0\n"
		 "vendor_id\t: AuthenticAMD\n"
		 "cpu family\t: 23\n"
		 "model\t\t: 49\n"
		 "model name\t: quic-lab processor (x86-64-v3, virtual time)\n"
		 "stepping\t: 0\n"
		 "cpu MHz\t\t: 1000.000\n"
		 "cache size\t: 512 KB\n"
		 "physical id\t: 0\n"
		 "siblings\t: 1\n"
		 "core id\t\t: 0\n"
		 "cpu cores\t: 1\n"
		 "apicid\t\t: 0\n"
		 "fpu\t\t: yes\n"
		 "cpuid level\t: 13\n"
		 "wp\t\t: yes\n"
		 "flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr "
		 "sse sse2 syscall nx mmxext pdpe1gb rdtscp lm constant_tsc nonstop_tsc cpuid pni pclmulqdq ssse3 fma "
		 "cx16 sse4_1 sse4_2 movbe popcnt aes xsave avx f16c lahf_lm abm 3dnowprefetch topoext bmi1 avx2 bmi2 "
		 "xsaveopt\n"
		 "bogomips\t: 2000.00\n"
		 "clflush size\t: 64\n"
		 "cache_alignment\t: 64\n"
		 "address sizes\t: 48 bits physical, 48 bits virtual\n");
	return 1;
}

static int cpu_show(struct seq_file *m, void *v)
{
	seq_puts(m, lab_cpu_fixed ? "lab\n" : "host\n");
	return 0;
}

static int __init lab_cpu_init(void)
{
	unsigned int features[4];

	if (using_seccomp && time_travel_mode == TT_MODE_INFCPU)
		lab_cpu_take(needed, ARRAY_SIZE(needed));
	if (lab_cpu_fixed) {
		/* The ABI has the first feature word there, and AT_HWCAP2 is absent in User Mode Linux. */
		cpuid(1, 0, features);
		elf_aux_hwcap = features[3];
		elf_aux_platform = ELF_PLATFORM_FALLBACK;
	}
	proc_mkdir("lab", NULL);
	proc_create_single("lab/cpu", 0, NULL, cpu_show);
	lab_inproc_init();
	return 0;
}
fs_initcall(lab_cpu_init);
