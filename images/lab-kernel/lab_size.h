/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __LAB_SIZE_H
#define __LAB_SIZE_H

/* Bytes from the image's beginning to the heap's end; the linker sees to it that both fit (adapt_inproc.py). */
#define LAB_KERNEL_SIZE 0x855000

#endif
