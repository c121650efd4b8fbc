/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls without a signal (lab_rewrite.c, lab_entry.S).
 */
#ifndef __LAB_REWRITE_H
#define __LAB_REWRITE_H

/*
 * Where programs have the slots. A jump by a slot is ff 24 25 and four bytes of address; that its last two are 0f 05,
 * the system call instruction itself, is what these places are chosen for.
 */
#define LAB_SLOTS_AT 0x050f0000
/* Slot 0 is the kernel's entry. Each other has a piece of code, behind the slots. */
#define LAB_SLOTS 2048
#define LAB_PIECE 32
#define LAB_PIECES_AT (LAB_SLOTS_AT + LAB_SLOTS * 8)

#ifndef __ASSEMBLER__

struct mm_struct;
struct seq_file;
struct uml_pt_regs;

/* Whether calls may be rewritten; settled when the kernel starts. */
extern int lab_rewriting;
/* Calls since the start, by jump (lab_entry.S) and by signal. */
extern unsigned long lab_jumped, lab_trapped;
/* The address behind the instruction, of each slot's call. */
extern unsigned long lab_call_ip[LAB_SLOTS];

void lab_rewrite_init(void);
void lab_rewrite_map(struct mm_struct *mm);
void lab_rewrite(struct uml_pt_regs *regs);
int lab_rewrite_show(struct seq_file *m);

#endif
#endif
