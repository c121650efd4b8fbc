/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* What tc (q_serial.c) and the kernel (sch_serial.c) say to each other about the queueing discipline `serial`. */
#ifndef SCH_SERIAL_H
#define SCH_SERIAL_H

/* Attributes in TCA_OPTIONS. */
enum {
	TCA_SERIAL_UNSPEC,
	TCA_SERIAL_RATE64,	/* u64, bit/s; 0: nothing is sent */
	TCA_SERIAL_PAD,
	__TCA_SERIAL_MAX
};
#define TCA_SERIAL_MAX (__TCA_SERIAL_MAX - 1)

#endif
