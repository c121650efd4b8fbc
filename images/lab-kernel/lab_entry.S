/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lab kernel in every process: where stacks and processes are switched (lab_inproc.c says what for).
 *
 * Registers of a program are in the order of struct user_regs_struct; lab_inproc.c holds the numbers below against
 * User Mode Linux's own.
 */
#include <linux/linkage.h>
#include <asm/unistd.h>
#include <lab_inproc.h>
#include <lab_rewrite.h>

#define R15 (0 * 8)
#define R14 (1 * 8)
#define R13 (2 * 8)
#define R12 (3 * 8)
#define RBP (4 * 8)
#define RBX (5 * 8)
#define R11 (6 * 8)
#define R10 (7 * 8)
#define R9 (8 * 8)
#define R8 (9 * 8)
#define RAX (10 * 8)
#define RCX (11 * 8)
#define RDX (12 * 8)
#define RSI (13 * 8)
#define RDI (14 * 8)
#define RIP (16 * 8)
#define CS (17 * 8)
#define EFLAGS (18 * 8)
#define RSP (19 * 8)
#define SS (20 * 8)
#define FS_BASE (21 * 8)
#define GS_BASE (22 * 8)

#define EFLAGS_TF 0x100
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1

.macro SAVE_CALLER
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
.endm

.macro RETURN_TO_CALLER
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
.endm

	.text

/*
 * void lab_transfer(struct lab_host *from, struct lab_host *to): the kernel goes on in another process of the host,
 * on the same stack. Whoever comes back to this process later comes with the stack of that time. From the wake on
 * this process touches no stack and nothing but its own futex: the kernel is elsewhere.
 */
SYM_FUNC_START(lab_transfer)
	SAVE_CALLER
	mov	%rsp, LAB_HOST_SP(%rsi)
	mov	%rdi, %rbx
	movl	$1, LAB_HOST_FUTEX(%rsi)
	mov	$__NR_futex, %eax
	mov	%rsi, %rdi
	mov	$FUTEX_WAKE, %esi
	mov	$1, %edx
	syscall
.Lwait:
	cmpl	$0, LAB_HOST_FUTEX(%rbx)
	jne	.Lwoken
	mov	$__NR_futex, %eax
	mov	%rbx, %rdi
	mov	$FUTEX_WAIT, %esi
	xor	%edx, %edx
	xor	%r10d, %r10d
	syscall
	jmp	.Lwait
.Lwoken:
	movl	$0, LAB_HOST_FUTEX(%rbx)
	mov	LAB_HOST_SP(%rbx), %rsp
	RETURN_TO_CALLER
SYM_FUNC_END(lab_transfer)

/* void lab_park(struct lab_host *own): a new process waits for the kernel, and never returns. */
SYM_FUNC_START(lab_park)
	mov	%rdi, %rbx
	jmp	.Lwait
SYM_FUNC_END(lab_park)

/*
 * void lab_enter(unsigned long *gp, void *fp, void *last): let the program run. Returns when it traps (lab_trap): the
 * stack it returns on is kept in lab_enter_sp.
 *
 * The last registers come from `last`, memory that the program may touch: with protection keys the kernel's is out of
 * reach by then, and WRPKRU takes three registers. After a system call RCX is the address to go on at and R11 the flags,
 * since the processor has put them there: a jump by RCX restores everything. In all other cases the slower iretq does.
 * What faults from here on (an address that is none, in the registers that a program asked for) is the program's.
 */
SYM_FUNC_START(lab_enter)
	SAVE_CALLER
	mov	%rsp, lab_enter_sp(%rip)
	movl	$1, lab_outside(%rip)
	mov	%rdx, %rbx
	mov	$LAB_FP_MASK, %eax
	xor	%edx, %edx
	xrstor64 (%rsi)
	mov	GS_BASE(%rdi), %rax
	wrgsbase %rax
	mov	FS_BASE(%rdi), %rax
	wrfsbase %rax
	mov	%rbx, %rsp
	mov	R15(%rdi), %r15
	mov	R14(%rdi), %r14
	mov	R13(%rdi), %r13
	mov	R12(%rdi), %r12
	mov	RBP(%rdi), %rbp
	mov	R11(%rdi), %r11
	mov	R10(%rdi), %r10
	mov	R9(%rdi), %r9
	mov	R8(%rdi), %r8
	mov	RSI(%rdi), %rsi
	mov	RIP(%rdi), %rcx
	cmp	RCX(%rdi), %rcx
	jne	.Lfull
	testl	$EFLAGS_TF, EFLAGS(%rdi)
	jne	.Lfull
	pushq	RSP(%rdi)
	push	%rcx
	pushq	EFLAGS(%rdi)
	pushq	RAX(%rdi)
	pushq	RDX(%rdi)
	pushq	RDI(%rdi)
	mov	RBX(%rdi), %rbx
	mov	lab_program_keys(%rip), %eax
	test	%eax, %eax
	jz	1f
	xor	%ecx, %ecx
	xor	%edx, %edx
	wrpkru
1:	pop	%rdi
	pop	%rdx
	pop	%rax
	popfq
	pop	%rcx
	pop	%rsp
	jmp	*%rcx
.Lfull:
	mov	%ss, %eax
	push	%rax
	pushq	RSP(%rdi)
	pushq	EFLAGS(%rdi)
	mov	%cs, %eax
	push	%rax
	push	%rcx
	pushq	RAX(%rdi)
	pushq	RCX(%rdi)
	pushq	RDX(%rdi)
	pushq	RDI(%rdi)
	mov	RBX(%rdi), %rbx
	mov	lab_program_keys(%rip), %eax
	test	%eax, %eax
	jz	1f
	xor	%ecx, %ecx
	xor	%edx, %edx
	wrpkru
1:	pop	%rdi
	pop	%rdx
	pop	%rcx
	pop	%rax
	iretq
SYM_FUNC_END(lab_enter)

/*
 * The handler of what a program traps by, on the alternate stack of its process. The kernel goes on where it called
 * lab_enter; the signal's frame is left behind, and nothing of the host's has to be undone: no signal is blocked.
 *
 * A trap of the kernel's own in this process (memory that other processes of the host mapped before it) is an ordinary
 * signal, handled on a stack of its own: the alternate one is too small.
 *
 * With protection keys a handler begins without a right to the kernel's memory.
 */
SYM_FUNC_START(lab_trap_keys)
	mov	%rdx, %r8
	xor	%eax, %eax
	xor	%ecx, %ecx
	xor	%edx, %edx
	wrpkru
	mov	%r8, %rdx
	jmp	lab_trap
SYM_FUNC_END(lab_trap_keys)

SYM_FUNC_START(lab_trap)
	testl	$1, lab_outside(%rip)
	jnz	.Lprogram
	push	%rbx
	mov	%rsp, %rbx
	mov	lab_fault_top(%rip), %rsp
	call	lab_kernel_trap
	mov	%rbx, %rsp
	pop	%rbx
	ret
.Lprogram:
	mov	lab_kernel_fs(%rip), %rax
	wrfsbase %rax
	movl	$0, lab_outside(%rip)
	mov	%edi, lab_signal(%rip)
	mov	%rsi, lab_info(%rip)
	mov	%rdx, lab_context(%rip)
	mov	lab_enter_sp(%rip), %rsp
	RETURN_TO_CALLER
SYM_FUNC_END(lab_trap)

/*
 * A call by jump (lab_rewrite.c), with every register as in a system call but RCX: the call's slot is its upper half.
 * What the processor would have put into RCX and R11, the address behind the instruction and the flags, is put there
 * here. The kernel goes on where it called lab_enter, with the registers in lab_gp and lab_fp.
 *
 * With protection keys the kernel's memory is out of reach at first. WRPKRU wants three registers' lower halves to be
 * 0 (or the rights): RCX's is, RDX is kept in R11, the call's number in the upper half of RAX. The flags stay.
 */
SYM_FUNC_START(lab_call_keys)
	mov	%eax, %eax
	bswap	%rax
	mov	%rdx, %r11
	mov	$0, %edx
	wrpkru
	mov	%r11, %rdx
	bswap	%rax
	jmp	lab_call
SYM_FUNC_END(lab_call_keys)

SYM_FUNC_START(lab_call)
	mov	lab_gp(%rip), %r11
	mov	%rsp, RSP(%r11)
	mov	lab_enter_sp(%rip), %rsp
	pushfq
	cld
	mov	%r15, R15(%r11)
	mov	%r14, R14(%r11)
	mov	%r13, R13(%r11)
	mov	%r12, R12(%r11)
	mov	%rbp, RBP(%r11)
	mov	%rbx, RBX(%r11)
	mov	%r10, R10(%r11)
	mov	%r9, R9(%r11)
	mov	%r8, R8(%r11)
	mov	%rax, RAX(%r11)
	mov	%rdx, RDX(%r11)
	mov	%rsi, RSI(%r11)
	mov	%rdi, RDI(%r11)
	shr	$32, %rcx
	lea	lab_call_ip(%rip), %rax
	mov	(%rax, %rcx, 8), %rcx
	mov	%rcx, RIP(%r11)
	mov	%rcx, RCX(%r11)
	pop	%rax
	mov	%rax, EFLAGS(%r11)
	mov	%rax, R11(%r11)
	mov	lab_kernel_fs(%rip), %rax
	wrfsbase %rax
	movl	$0, lab_outside(%rip)
	movq	$0, lab_info(%rip)
	incq	lab_jumped(%rip)
	mov	lab_fp(%rip), %rcx
	mov	$LAB_FP_MASK, %eax
	xor	%edx, %edx
	xsaveopt64 (%rcx)
	RETURN_TO_CALLER
SYM_FUNC_END(lab_call)

SYM_FUNC_START(lab_restorer)
	mov	$__NR_rt_sigreturn, %eax
	syscall
SYM_FUNC_END(lab_restorer)

/*
 * long lab_share(int fd, void *start, unsigned long length, void *copy, const struct lab_part *parts, int count): copy
 * the parts of this kernel to a mapping of the memory file, and map the file in the kernel's own place. In between
 * nothing may be written, the stack included. What is between the parts stays a hole of the file.
 */
SYM_FUNC_START(lab_share)
	push	%rbx
	push	%rbp
	mov	%rsi, %rbx			/* start */
	mov	%rdx, %rbp			/* length */
	mov	%rcx, %r10			/* copy */
	mov	%rdi, %rax			/* fd */
	cld
.Lpart:
	dec	%r9d
	js	.Lcopied
	mov	(%r8), %rdi
	mov	8(%r8), %rcx
	lea	(%rbx, %rdi), %rsi
	add	%r10, %rdi
	rep movsb
	add	$16, %r8
	jmp	.Lpart
.Lcopied:
	mov	%rax, %r8
	mov	%rbx, %rdi
	mov	%rbp, %rsi
	mov	$7, %edx			/* PROT_READ | PROT_WRITE | PROT_EXEC */
	mov	$0x11, %r10d			/* MAP_SHARED | MAP_FIXED */
	xor	%r9d, %r9d
	mov	$__NR_mmap, %eax
	syscall
	pop	%rbp
	pop	%rbx
	ret
SYM_FUNC_END(lab_share)

	.section .note.GNU-stack,"",@progbits
