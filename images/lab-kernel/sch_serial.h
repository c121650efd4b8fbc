/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* What tc (q_serial.c) and the kernel (sch_serial.c) say to each other about the queueing discipline `serial`, and `transit`. */
#ifndef SCH_SERIAL_H
#define SCH_SERIAL_H

/* Attributes in TCA_OPTIONS. */
enum {
	TCA_SERIAL_UNSPEC,
	TCA_SERIAL_RATE64,	/* u64, bit/s; 0: nothing is sent */
	TCA_SERIAL_PAD,
	TCA_SERIAL_TRACE,	/* string: the file of its series */
	TCA_SERIAL_OFFSET64,	/* u64, ns: where the series starts */
	TCA_SERIAL_START,	/* flag: the series starts now */
	TCA_SERIAL_STARTED64,	/* u64, ns since the epoch: when it did; 0: not yet */
	__TCA_SERIAL_MAX
};
#define TCA_SERIAL_MAX (__TCA_SERIAL_MAX - 1)

/* Those of `transit` (q_transit.c, sch_transit.c). */
enum {
	TCA_TRANSIT_UNSPEC,
	TCA_TRANSIT_TRACE,	/* string: the file of its series */
	TCA_TRANSIT_OFFSET64,	/* u64, ns */
	TCA_TRANSIT_EXTRA64,	/* u64, ns: added to the delays of the series */
	TCA_TRANSIT_SEED64,	/* u64 */
	TCA_TRANSIT_LIMIT,	/* u32, packets */
	TCA_TRANSIT_START,	/* flag */
	TCA_TRANSIT_STARTED64,	/* u64, ns since the epoch; 0: not yet */
	TCA_TRANSIT_PAD,
	__TCA_TRANSIT_MAX
};
#define TCA_TRANSIT_MAX (__TCA_TRANSIT_MAX - 1)

#endif
