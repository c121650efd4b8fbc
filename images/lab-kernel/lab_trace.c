// SPDX-License-Identifier: GPL-2.0
/*
 * The host's side of a trace (lab_witness.c): a file of the host, written in large blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <os.h>
#include <lab_witness.h>

static struct lab_record block[1024];
static int filled;
static int file = -1;

/* Whether a trace is asked for. A file that cannot be written ends the kernel: nobody wants half a trace. */
int lab_trace_open(void)
{
	const char *name = getenv("LAB_TRACE");

	if (!name)
		return 0;
	file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (file < 0) {
		os_warn("LAB_TRACE=%s: %s\n", name, strerror(errno));
		exit(1);
	}
	return 1;
}

void lab_trace_flush(void)
{
	const char *at = (const char *)block;
	size_t left = filled * sizeof(block[0]);
	ssize_t done;

	while (left) {
		done = write(file, at, left);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			os_warn("the trace cannot be written: %s\n", strerror(errno));
			exit(1);
		}
		at += done;
		left -= done;
	}
	filled = 0;
}

void lab_trace_write(const struct lab_record *record)
{
	block[filled++] = *record;
	if (filled == sizeof(block) / sizeof(block[0]))
		lab_trace_flush();
}
