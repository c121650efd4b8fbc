/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The processor's state in the signal frames of programs (arch/x86/um/signal.c): as much as the processor that they
 * know has, so that a frame is as large on every machine, and fits where a program made room for it.
 *
 * The host's kernel wants its own frame back: the bytes that it keeps there for itself (sw_reserved), and the state
 * that programs do not know of.
 */
#ifndef __LAB_XSTATE_H
#define __LAB_XSTATE_H

#include <linux/uaccess.h>
#include <asm/sigframe.h>
#include <lab_cpu.h>
#include <registers.h>

/* x87 and SSE, header, upper halves of AVX. */
#define LAB_XSTATE_SIZE 832

/* Bytes of state in a frame, without FP_XSTATE_MAGIC2. */
static inline unsigned long lab_xstate_size(void)
{
	return lab_cpu_fixed ? LAB_XSTATE_SIZE : host_fp_size;
}

static inline int lab_xstate_from_user(void *state, const void __user *frame)
{
	const struct _xstate __user *from = frame;
	struct _xstate *to = state;
	struct _header header;

	BUILD_BUG_ON(sizeof(struct _xstate) != LAB_XSTATE_SIZE);
	if (!lab_cpu_fixed)
		return copy_from_user(state, frame, host_fp_size) != 0;
	if (copy_from_user(&to->fpstate, &from->fpstate, offsetof(struct _fpstate, sw_reserved)) ||
	    copy_from_user(&header, &from->xstate_hdr, sizeof(header)) ||
	    copy_from_user(&to->ymmh, &from->ymmh, sizeof(to->ymmh)))
		return 1;
	to->xstate_hdr.xfeatures &= ~(__u64)LAB_XSTATE_FEATURES;
	to->xstate_hdr.xfeatures |= header.xfeatures & LAB_XSTATE_FEATURES;
	return 0;
}

static inline int lab_xstate_to_user(void __user *frame, const void *state)
{
	const struct _xstate *from = state;
	struct _xstate __user *to = frame;

	if (copy_to_user(frame, state, lab_xstate_size()))
		return 1;
	if (!lab_cpu_fixed)
		return 0;
	return __put_user(from->xstate_hdr.xfeatures & LAB_XSTATE_FEATURES, &to->xstate_hdr.xfeatures) ||
	       __put_user(LAB_XSTATE_FEATURES, &to->fpstate.sw_reserved.xfeatures);
}

#endif
