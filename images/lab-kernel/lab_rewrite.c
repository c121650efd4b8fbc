// SPDX-License-Identifier: GPL-2.0
/*
 * System calls without a signal: a program's `syscall` instruction that is executed again and again gets a jump ahead
 * of it, by which the program reaches the kernel that is in its process anyway (lab_inproc.c). A signal costs more than
 * most calls do.
 *
 * The instruction has two bytes; a jump to anywhere has seven. So the five bytes ahead of it move to a piece of code of
 * their own, and the jump's last two bytes are the instruction as it was (LAB_SLOTS_AT). Whoever comes to the
 * instruction by itself, a call that is restarted among them, finds it there, and traps as ever. A program's registers,
 * its address included, are in a call by jump what they are in one by signal.
 *
 * Which code this is done to says call_sites.py: what is known for what it is. All else goes on by signal.
 *
 * What this relies on:
 * - One processor, and programs that lose it in calls and faults alone: nobody is between the bytes that are moved.
 * - Code is a private mapping of a file. What is written belongs to one address space and those it forks.
 * - Slots and pieces are a mapping of each program at a fixed place, sealed (mseal(2)). A program that has something
 *   else there goes on by signal.
 */
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <asm/current.h>
#include <sysdep/ptrace.h>
#include <lab_inproc.h>
#include <lab_rewrite.h>
#include <lab_sites.h>

/* So often a call has come from one place before that is looked at; tried anew as often, for other address spaces. */
#define OFTEN 64
#define TRIES 8
#define KNOWN 1024
#define PAGES ((LAB_SLOTS * (8 + LAB_PIECE)) / PAGE_SIZE)
#define SYSCALL 2
#define JUMP 7

static_assert(LAB_SLOTS * (8 + LAB_PIECE) % PAGE_SIZE == 0);
/* The upper half of every slot's address, low byte first, is the instruction. */
static_assert(LAB_SLOTS_AT >> 16 == 0x050f && (LAB_SLOTS_AT + LAB_SLOTS * 8 - 1) >> 16 == 0x050f);

extern char lab_call[], lab_call_keys[];

int lab_rewriting;
unsigned long lab_jumped, lab_trapped;
unsigned long lab_call_ip[LAB_SLOTS];

static struct page *pages[PAGES + 1];
static struct vm_special_mapping mapping = { .name = "[calls]", .pages = pages };
static unsigned long *slots;
static u8 (*pieces)[LAB_PIECE];
static int used = 1;

/* How often a call came from where. */
static struct {
	unsigned long ip;
	struct mm_struct *mm;
	unsigned int count;
} known[KNOWN];

/* jmp *slot, whose last two bytes are a system call instruction. */
static void put_jump(u8 *at, int slot)
{
	u32 address = LAB_SLOTS_AT + slot * 8;

	at[0] = 0xff;
	at[1] = 0x24;
	at[2] = 0x25;
	memcpy(at + 3, &address, 4);
}

/* The kind of code around a call, whose instruction is at code[at] of length bytes; NULL for none that is known. */
static const struct lab_site *site_of(const u8 *code, int at, int length, unsigned long number)
{
	const struct lab_site *site;
	unsigned int i;
	u32 value;

	for (site = lab_sites; site < lab_sites + ARRAY_SIZE(lab_sites); site++) {
		const u8 *here = code + at - site->before;

		if (site->before > at || site->length - site->before > length - at)
			continue;
		for (i = 0; i < site->length && (here[i] & site->mask[i]) == site->code[i]; i++)
			;
		if (i < site->length)
			continue;
		if (!site->number)
			return site;
		memcpy(&value, code + at - 4, 4);
		if (value != number || at < site->moved + LAB_SITE_OTHERS_AHEAD || (here[-1] & 0xf0) == 0x40)
			continue;
		for (i = 0; i < LAB_SITE_OTHERS_AHEAD * ARRAY_SIZE(lab_site_others); i++)
			if (here[-1 - (int)(i % LAB_SITE_OTHERS_AHEAD)] == lab_site_others[i / LAB_SITE_OTHERS_AHEAD])
				break;
		if (i == LAB_SITE_OTHERS_AHEAD * ARRAY_SIZE(lab_site_others))
			return site;
	}
	return NULL;
}

/* The slot for a call: one that does the same already, or a new one; 0 if there is none left. */
static int slot_for(unsigned long ip, const u8 *moved, int length)
{
	int slot, at = 0;
	u8 *piece;

	for (slot = 1; slot < used; slot++)
		if (lab_call_ip[slot] == ip && !memcmp(pieces[slot], moved, length))
			return slot;
	if (used == LAB_SLOTS)
		return 0;
	slot = used++;
	piece = pieces[slot];
	memcpy(piece, moved, length);
	at = length;
	/* mov $slot << 32, %rcx */
	piece[at++] = 0x48;
	piece[at++] = 0xb9;
	memset(piece + at, 0, 4);
	memcpy(piece + at + 4, &slot, 4);
	put_jump(piece + at + 8, 0);
	lab_call_ip[slot] = ip;
	slots[slot] = LAB_PIECES_AT + slot * LAB_PIECE;
	return slot;
}

/* Whether code may be written at [from, to) of this program, and it reaches the slots. */
static bool possible(unsigned long from, unsigned long to)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool may;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, LAB_SLOTS_AT);
	may = vma && vma_is_special_mapping(vma, &mapping);
	vma = vma_lookup(mm, from);
	may = may && vma && to <= vma->vm_end && vma->vm_file && (vma->vm_flags & VM_EXEC) &&
	      !(vma->vm_flags & (VM_WRITE | VM_SHARED));
	mmap_read_unlock(mm);
	return may;
}

static void rewrite(unsigned long ip, unsigned long number)
{
	/* All in one page: what is written is there at once, and nobody has a fault between the instructions. */
	unsigned long instruction = ip - SYSCALL, page = instruction & PAGE_MASK;
	unsigned long from = max(page, instruction - LAB_SITE_BEFORE);
	unsigned long to = min(page + PAGE_SIZE, instruction + LAB_SITE_BEHIND);
	u8 code[LAB_SITE_BEFORE + LAB_SITE_BEHIND], jump[JUMP + 1] = { 0x90 /* nop */ };
	int at = instruction - from, slot, spare;
	const struct lab_site *site;

	if (to < ip || !possible(from, to))
		return;
	if (access_process_vm(current, from, code, to - from, FOLL_FORCE) != to - from)
		return;
	site = site_of(code, at, to - from, number);
	if (!site)
		return;
	slot = slot_for(ip, code + at - site->moved, site->moved);
	if (!slot)
		return;
	spare = site->moved + SYSCALL - JUMP;
	put_jump(jump + 1, slot);
	access_process_vm(current, instruction - site->moved, jump + 1 - spare, site->moved, FOLL_FORCE | FOLL_WRITE);
}

/* A call has come by signal: the next ones from there shall not. */
void lab_rewrite(struct uml_pt_regs *regs)
{
	unsigned long ip = UPT_IP(regs);
	unsigned int i = (ip ^ (unsigned long)current->mm >> 6) % KNOWN;

	lab_trapped++;
	if (!lab_rewriting)
		return;
	if (known[i].ip != ip || known[i].mm != current->mm) {
		known[i].ip = ip;
		known[i].mm = current->mm;
		known[i].count = 0;
	}
	if (known[i].count >= OFTEN * TRIES || ++known[i].count % OFTEN)
		return;
	rewrite(ip, PT_SYSCALL_NR(regs->gp));
}

/* A program begins. It has the slots whether they are used or not: its memory is to be the same. */
void lab_rewrite_map(struct mm_struct *mm)
{
	_install_special_mapping(mm, LAB_SLOTS_AT, PAGES * PAGE_SIZE,
				 VM_READ | VM_EXEC | VM_MAYREAD | VM_MAYEXEC | VM_SEALED, &mapping);
}

void __init lab_rewrite_init(void)
{
	int i;

	slots = alloc_pages_exact(PAGES * PAGE_SIZE, GFP_KERNEL | __GFP_ZERO);
	if (!slots)
		panic("no memory for slots");
	pieces = (void *)(slots + LAB_SLOTS);
	slots[0] = (unsigned long)(lab_program_keys ? lab_call_keys : lab_call);
	for (i = 0; i < PAGES; i++)
		pages[i] = virt_to_page((unsigned long)slots + i * PAGE_SIZE);
}

int lab_rewrite_show(struct seq_file *m)
{
	seq_printf(m, "%lu calls by jump, %lu by signal; %d places\n", lab_jumped, lab_trapped, used - 1);
	return 0;
}
