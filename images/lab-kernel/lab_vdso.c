// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vDSO of the lab kernel: the clocks of the clock page (lab_clock.h) where that allows it, else a system call.
 */
#define DISABLE_BRANCH_PROFILING

#include <vdso/gettime.h>
#include <linux/time.h>
#include <asm/unistd.h>
#include <lab_clock.h>

static const volatile unsigned long place = LAB_CLOCK_PLACE;

static inline long ask_kernel(long number, long first, const void *second)
{
	long ret;

	asm volatile("syscall" : "=a" (ret) : "0" (number), "D" (first), "S" (second) : "rcx", "r11", "memory");
	return ret;
}

/* ns of a clock after one more look at it, or 0 when the kernel must be asked. */
static inline unsigned long long look(clockid_t clock)
{
	volatile struct lab_clock *page = (void *)place;
	unsigned long long base;

	if (!page || page->reads >= page->limit)
		return 0;
	if (clock == CLOCK_REALTIME)
		base = page->realtime;
	else if (clock == CLOCK_MONOTONIC)
		base = page->monotonic;
	else
		return 0;
	page->reads++;
	return base + (unsigned long long)page->reads * LAB_CLOCK_COST;
}

int __vdso_clock_gettime(clockid_t clock, struct __kernel_timespec *ts)
{
	unsigned long long ns = look(clock);

	if (!ns)
		return ask_kernel(__NR_clock_gettime, clock, ts);
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}
int clock_gettime(clockid_t, struct __kernel_timespec *) __attribute__((weak, alias("__vdso_clock_gettime")));

int __vdso_gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz)
{
	unsigned long long ns = tz || !tv ? 0 : look(CLOCK_REALTIME);

	if (!ns)
		return ask_kernel(__NR_gettimeofday, (long)tv, tz);
	tv->tv_sec = ns / 1000000000;
	tv->tv_usec = ns % 1000000000 / 1000;
	return 0;
}
int gettimeofday(struct __kernel_old_timeval *, struct timezone *) __attribute__((weak, alias("__vdso_gettimeofday")));

__kernel_old_time_t __vdso_time(__kernel_old_time_t *t)
{
	return ask_kernel(__NR_time, (long)t, 0);
}
__kernel_old_time_t time(__kernel_old_time_t *t) __attribute__((weak, alias("__vdso_time")));
