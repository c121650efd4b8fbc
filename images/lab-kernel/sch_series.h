/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A series: what changes with time on a link, read from a file of 64-bit words.
 *
 * Words of the file, in the processor's order: SERIES_MAGIC, the width of an entry in words, its period in ns (0 where
 * it does not repeat), the bytes of an opportunity and what a packet's length counts for more or less there (both 0 in
 * other series), the number of entries; then the entries. The first word of an entry is its time in ns. Times begin at
 * 0, but in a series of opportunities, and never fall.
 */
#ifndef SCH_SERIES_H
#define SCH_SERIES_H

#include <linux/math64.h>
#include <linux/types.h>

#define SERIES_MAGIC 0x5345495245534c51ull	/* "QLSERIES" */
#define SERIES_NEVER S64_MAX

struct netlink_ext_ack;

struct series {
	u64 *words;		/* the file; NULL where there is none */
	const u64 *entries;
	u32 count, width;
	u32 cursor;		/* the entry in force, or the next opportunity */
	s64 period;
	s64 offset;		/* where it starts, ns */
	s64 base;		/* when its present round began; meaningless before it was started */
	s64 bytes, overhead;
	u64 started;		/* wall-clock time of its start, ns; 0 before */
};

int series_read(struct series *series, const char *path, u32 narrowest, u32 widest, u64 offset,
		struct netlink_ext_ack *extack);
void series_start(struct series *series);
void series_free(struct series *series);

static inline const u64 *series_entry(const struct series *series)
{
	return series->entries + (size_t)series->cursor * series->width;
}

/* When the entry in force is over. */
static inline s64 series_until(const struct series *series)
{
	if (series->cursor + 1 < series->count)
		return series->base + (s64)series_entry(series)[series->width];
	return series->period ? series->base + series->period : SERIES_NEVER;
}

/* The next entry comes into force. */
static inline void series_next(struct series *series)
{
	if (++series->cursor < series->count)
		return;
	series->cursor = 0;
	series->base += series->period;
}

/* Leave out whole rounds that are over. */
static inline void series_skip(struct series *series, s64 now)
{
	s64 rounds = series->period ? div64_s64(now - series->base, series->period) : 0;

	if (rounds > 1) {
		series->base += (rounds - 1) * series->period;
		series->cursor = 0;
	}
}

/* The entry of a time that is no earlier than any asked for before comes into force. */
static inline void series_advance(struct series *series, s64 now)
{
	series_skip(series, now);
	while (series_until(series) <= now)
		series_next(series);
}

#endif
