// SPDX-License-Identifier: GPL-2.0
/* Reading a series, and starting it. */
#include <linux/kernel_read_file.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/netlink.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>
#include "sch_series.h"

enum { MAGIC, WIDTH, PERIOD, BYTES, OVERHEAD, COUNT, HEADER };

/*
 * Read the file into a series that was all zeros. Its entries are of `narrowest` to `widest` words, and of one word where
 * it is of opportunities alone. Nothing stays allocated where it fails.
 */
int series_read(struct series *series, const char *path, u32 narrowest, u32 widest, u64 offset,
		struct netlink_ext_ack *extack)
{
	void *content = NULL;
	ssize_t size = kernel_read_file_from_path(path, 0, &content, INT_MAX, NULL, READING_UNKNOWN);
	u64 *words = content;

	if (size < 0) {
		NL_SET_ERR_MSG(extack, "the series cannot be read");
		return size;
	}
	if (size < HEADER * sizeof(u64) || words[MAGIC] != SERIES_MAGIC || words[WIDTH] < narrowest ||
	    words[WIDTH] > widest || (words[WIDTH] == 1) != (words[BYTES] > 0) || !words[COUNT] ||
	    words[COUNT] > U32_MAX || size != (HEADER + words[COUNT] * words[WIDTH]) * sizeof(u64) ||
	    words[PERIOD] > S64_MAX / 2 || offset > S64_MAX / 2) {
		vfree(content);
		NL_SET_ERR_MSG(extack, "the file is no series of this kind");
		return -EINVAL;
	}
	*series = (struct series) {
		.words = words,
		.entries = words + HEADER,
		.count = words[COUNT],
		.width = words[WIDTH],
		.period = words[PERIOD],
		.offset = offset,
		.bytes = words[BYTES],
		.overhead = words[OVERHEAD],
	};
	return 0;
}

/* It starts now, at its offset. */
void series_start(struct series *series)
{
	series->cursor = 0;
	series->base = (s64)ktime_get_ns() - series->offset;
	series->started = ktime_get_real_ns();
}

void series_free(struct series *series)
{
	vfree(series->words);
	series->words = NULL;
}
