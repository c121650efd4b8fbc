/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the lab kernel can testify about a run: which random bytes it handed out, and which system calls were made.
 */
#ifndef __LAB_WITNESS_H
#define __LAB_WITNESS_H

/* Numbers of what is not a system call, in a trace. */
#define LAB_TRACE_CPUID -1
#define LAB_TRACE_RDTSC -2
#define LAB_TRACE_FAULT -3

/* One record of a trace, little-endian; harness/traces reads it. */
struct lab_record {
	unsigned long long time_ns;
	long long result;
	/* Of the six registers with arguments; of a fault the address and where. */
	unsigned long long arguments;
	/* Of the random bytes handed out by the call. */
	unsigned long long random;
	unsigned int pid;
	int number;
	/* Looks at the clock page before the call. */
	unsigned int looks;
	unsigned int unused;
	char program[16];
	char node[16];
};

/* The kernel's side. */
extern int lab_tracing;
extern unsigned int lab_looks;
void lab_trace(int number, unsigned long long arguments, long long result);
unsigned long long lab_mix(unsigned long long digest, unsigned long long word);
void lab_random_handed(const void *bytes, unsigned long count);

/* The host's side. */
int lab_trace_open(void);
void lab_trace_write(const struct lab_record *record);
void lab_trace_flush(void);

#endif
