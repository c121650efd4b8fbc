/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clock page of the lab kernel: in virtual time a process reads the clock without entering the kernel.
 *
 * Each look at the clock costs virtual time (TIMER_MULTIPLIER), so that loops that wait for it end; and each
 * system call of a guest's process is a signal and two changes of process on the host. The page has the time at
 * which the process was last resumed, and counts its looks at the clock; the kernel adds what they cost when the
 * process comes back. A process may look `limit` times: then something else is due, and it has to ask the kernel.
 */
#ifndef __LAB_CLOCK_H
#define __LAB_CLOCK_H

/* In the vDSO's image, where the kernel writes the address of the clock page when it boots. */
#define LAB_CLOCK_PLACE 0x6c61622d636c6f63UL
/* Virtual ns that a look at the clock costs; TIMER_MULTIPLIER of <linux/time-internal.h>. */
#define LAB_CLOCK_COST 256

struct lab_clock {
	unsigned long long monotonic;
	unsigned long long realtime;
	unsigned int reads;
	unsigned int limit;
};

/* The kernel's side (kernel/time.c): a process is about to run; it came back. */
void lab_clock_resume(struct lab_clock *clock);
void lab_clock_settle(struct lab_clock *clock);
/* Lets ns of virtual time pass, and says what time it is: ns since the kernel's start. */
unsigned long long lab_time(unsigned long long ns);

#endif
