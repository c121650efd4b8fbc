// SPDX-License-Identifier: GPL-2.0
/*
 * What computing costs: where the clock stands still while a program computes, a program whose machine is to be modelled
 * sleeps at the end of each of its system calls.
 *
 * A task has a price for a call, for a datagram of UDP that it sends or takes from a socket (each of those that the
 * kernel cuts from one buffer or merges into one), and for a byte of a datagram's payload or of TCP. All that it forks
 * has them, too. It sleeps alone: every thread of an endpoint has a processor of its own. Without prices nothing is
 * looked at but three words, no clock least of all.
 */
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/hrtimer.h>
#include <linux/net.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/skbuff.h>
#include <linux/socket.h>
#include <linux/time-internal.h>
#include <net/sock.h>
#include <lab_clock.h>
#include <lab_cost.h>

/* The most of a price, ps: a second; of a byte a millisecond, so that what 2^31 of them cost has 63 bits. */
#define MOST 1000000000000UL
#define MOST_PER_BYTE 1000000000UL
#define PS_PER_NS 1000
/* The most that counts for the next sleep, ps: 100 us. */
#define CREDIT 100000000LL

int lab_cost_set(unsigned long per_call, unsigned long per_datagram, unsigned long per_byte)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	/* Only there does computing cost nothing. */
	if (time_travel_mode != TT_MODE_INFCPU)
		return -EOPNOTSUPP;
	if (per_call > MOST || per_datagram > MOST || per_byte > MOST_PER_BYTE)
		return -EINVAL;
	current->lab_cost = (struct lab_cost) {
		.per_call = per_call, .per_datagram = per_datagram, .per_byte = per_byte,
	};
	return 0;
}

void lab_cost_datagrams(const struct sk_buff *skb, int bytes)
{
	struct lab_cost *cost = &current->lab_cost;
	int count = skb_shinfo(skb)->gso_segs ?: 1;

	cost->due += count * cost->per_datagram + bytes * cost->per_byte;
}

/* What a program hands to a connection of TCP or takes from one; `bytes` below zero are an error. */
void lab_cost_stream(const struct socket *sock, int bytes, int flags)
{
	struct lab_cost *cost = &current->lab_cost;

	if (!cost->per_byte || bytes <= 0 || flags & MSG_PEEK || sock->type != SOCK_STREAM)
		return;
	if (sock->sk->sk_family == AF_INET || sock->sk->sk_family == AF_INET6)
		cost->due += bytes * cost->per_byte;
}

/* Without a look at the clock, which would cost time. */
static ktime_t now(void)
{
	unsigned long flags;
	ktime_t time;

	local_irq_save(flags);
	time = ktime_get();
	local_irq_restore(flags);
	return time;
}

void lab_cost_charge(void)
{
	struct lab_cost *cost = &current->lab_cost;
	unsigned long long start;
	ktime_t until;

	if (!cost->per_call && !cost->per_datagram && !cost->per_byte)
		return;
	cost->due += cost->per_call;
	if (cost->due < PS_PER_NS)
		return;
	start = lab_time(0);
	until = ktime_add_ns(now(), cost->due / PS_PER_NS);
	/* No signal but one that ends the program makes this shorter. */
	do {
		set_current_state(TASK_KILLABLE);
	} while (schedule_hrtimeout_range(&until, 0, HRTIMER_MODE_ABS) && !fatal_signal_pending(current));
	/*
	 * Timers go by ticks of the clock (TIMER_MULTIPLIER), and others look at it meanwhile: what was slept too long
	 * counts for the next sleep. Before timers go by less than a jiffy that would be too much.
	 */
	cost->due -= (long long)(lab_time(0) - start) * PS_PER_NS;
	cost->due = max(cost->due, -CREDIT);
}
