// SPDX-License-Identifier: GPL-2.0
/*
 * The lab kernel in every process (lab_inproc.c): what the kernel's own side is asked.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/utsname.h>
#include <as-layout.h>
#include <mem_user.h>
#include <os.h>
#include <lab_inproc.h>
#include <lab_rewrite.h>

extern pte_t *virt_to_pte(struct mm_struct *mm, unsigned long addr);

/* 'client0: /name of the program' for a process of the host; NULL for one that has none. Nothing else may run. */
const char *lab_program_of(int pid)
{
	static char name[__NEW_UTS_LEN + TASK_COMM_LEN + 3];
	struct task_struct *p;

	for_each_process(p) {
		if (!p->mm || p->mm->context.id.pid != pid)
			continue;
		snprintf(name, sizeof(name), "%s: %s", p->nsproxy ? p->nsproxy->uts_ns->name.nodename : "", p->comm);
		return name;
	}
	return NULL;
}

/* The kernel touched a virtual mapping of its own that this process of the host has not followed. */
void lab_vm_fault(unsigned long address, unsigned long ip)
{
	pte_t *pte = virt_to_pte(&init_mm, address & PAGE_MASK);
	unsigned long long offset;
	int fd;

	if (!pte || !pte_present(*pte))
		panic("Kernel mode fault at addr 0x%lx, ip 0x%lx", address, ip);
	fd = phys_mapping(pte_val(*pte) & PAGE_MASK, &offset);
	if (os_map_memory((void *)(address & PAGE_MASK), fd, offset, PAGE_SIZE, 1, 1, 1))
		report_enomem();
	lab_protect_mapping(address & PAGE_MASK, PAGE_SIZE);
}

/* How programs are entered: /proc/lab/entry. */
static int entry_show(struct seq_file *m, void *v)
{
	seq_puts(m, !lab_inproc ? "host" : lab_rewriting ? "inproc" : "trap");
	seq_puts(m, lab_inproc && lab_program_keys ? " keys\n" : "\n");
	return lab_rewrite_show(m);
}

/*
 * Take the programs' processes in, if they can be. Called from an initcall that was there before: each one adds to what
 * random numbers start from, and these are to stay as they were.
 */
void __init lab_inproc_init(void)
{
	unsigned long long offset;
	int fd = phys_mapping(__pa(uml_physmem), &offset);

	lab_inproc_take(fd, uml_physmem, uml_reserved);
	lab_rewrite_init();
	proc_create_single("lab/entry", 0, NULL, entry_show);
}
