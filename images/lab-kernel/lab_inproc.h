/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lab kernel in every process (lab_inproc.c, lab_entry.S, lab_inproc_kern.c): what its sides tell each other.
 */
#ifndef __LAB_INPROC_H
#define __LAB_INPROC_H

/* struct lab_host, for lab_entry.S. */
#define LAB_HOST_FUTEX 0
#define LAB_HOST_SP 8
/* Of the processor's state what programs may use: x87, SSE, AVX, AVX-512. Others (protection keys) stay the host's. */
#define LAB_FP_MASK 0xe7

#ifndef __ASSEMBLER__

struct mm_id;
struct uml_pt_regs;

/* A process of the host that the kernel can be in: the one it began in (home), and one for each address space. */
struct lab_host {
	int futex;		/* 0: parked, 1: the kernel is to go on here */
	int generation;		/* of the kernel's virtual mappings, as far as it has followed them */
	unsigned long sp;	/* where the kernel's stack stands, when it goes on here */
	int pid;
};

/* Whether guests' processes are entered this way; settled before the first of them. */
extern int lab_inproc;
/* PKRU while a program runs; 0 where the processor has no protection keys. */
extern unsigned int lab_program_keys;
/* What a program trapped by; 0 for a call by jump. */
extern unsigned long lab_info;
/* The process of the host that the kernel began in. */
extern int lab_home_pid;
/* Whose process the kernel waits for, where it enters programs from another process; NULL while it does not wait. */
extern struct mm_id *lab_waited;
/* How the child ended that was reaped last (wait(2)). */
extern int lab_reaped;

/* signal.c: whether the kernel's interrupts are on; how it was. */
int um_set_signals(int enable);

/* The host's side. */
void lab_reserve_heap(void);
void lab_inproc_take(int fd, unsigned long start, unsigned long end);
void lab_go_home(void);
int lab_start_process(struct mm_id *id);
int lab_stub_run(struct mm_id *id);
int lab_run(struct uml_pt_regs *regs, struct mm_id *id, void *info, int single_step);
void lab_mappings_changed(void);
void lab_protect_mapping(unsigned long start, unsigned long length);
void lab_take_over(void);
int lab_home_signal(int sig);
void lab_asynchronous(void);
void lab_lost(int pid, int status);
void lab_irq(int sig);

/* The kernel's side. */
void lab_inproc_init(void);
const char *lab_program_of(int pid);
void lab_vm_fault(unsigned long address, unsigned long ip);

#endif
#endif
