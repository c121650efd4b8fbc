/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What computing costs a program in virtual time (lab_cost.c).
 */
#ifndef __LAB_COST_H
#define __LAB_COST_H

/* An option of prctl(2): picoseconds per system call, per datagram and per byte. */
#define LAB_PR_COST 0x6c616263

/* Of a task, and of all that it forks. */
struct lab_cost {
	unsigned long long per_call, per_datagram, per_byte;
	/* What is still to be slept; below zero where the last sleep was longer than asked for. */
	long long due;
};

struct sk_buff;
struct socket;

int lab_cost_set(unsigned long per_call, unsigned long per_datagram, unsigned long per_byte);
void lab_cost_datagrams(const struct sk_buff *skb, int bytes);
void lab_cost_stream(const struct socket *sock, int bytes, int flags);
/* At the end of each system call. */
void lab_cost_charge(void);

#endif
