// SPDX-License-Identifier: GPL-2.0
/*
 * Testimony of a run, for whoever asks why two runs of one lab are not the same.
 *
 * /proc/lab/random has a line for each endpoint (its UTS namespace's node name): how many random bytes its
 * processes were handed by getrandom(2), /dev/random, /dev/urandom and AT_RANDOM, and their BLAKE2s-256.
 * With LAB_TRACE=FILE in the environment of the kernel's process every system call, CPUID, RDTSC and page fault
 * is written there (struct lab_record).
 */
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/utsname.h>
#include <crypto/blake2s.h>
#include <init.h>
#include <lab_clock.h>
#include <lab_witness.h>

struct stream {
	struct list_head list;
	char node[__NEW_UTS_LEN + 1];
	unsigned long long bytes;
	struct blake2s_ctx digest;
};

int lab_tracing;
/* Looks at the clock page that the next record accounts for. */
unsigned int lab_looks;

static LIST_HEAD(streams);
static DEFINE_SPINLOCK(streams_lock);
/* Digest of the random bytes that the next record accounts for. */
static unsigned long long handed;

/* A step of SplitMix64's mixing function: digests that tell runs apart, not adversaries. */
unsigned long long lab_mix(unsigned long long digest, unsigned long long word)
{
	digest = (digest ^ word) + 0x9e3779b97f4a7c15ull;
	digest = (digest ^ (digest >> 30)) * 0xbf58476d1ce4e5b9ull;
	digest = (digest ^ (digest >> 27)) * 0x94d049bb133111ebull;
	return digest ^ (digest >> 31);
}

static const char *node_name(void)
{
	return current->nsproxy ? utsname()->nodename : "";
}

static struct stream *stream_of(const char *node)
{
	struct stream *stream;

	list_for_each_entry(stream, &streams, list)
		if (strcmp(stream->node, node) == 0)
			return stream;
	stream = kzalloc(sizeof(*stream), GFP_ATOMIC);
	if (!stream)
		return NULL;
	strscpy(stream->node, node, sizeof(stream->node));
	blake2s_init(&stream->digest, BLAKE2S_HASH_SIZE);
	list_add_tail(&stream->list, &streams);
	return stream;
}

void lab_random_handed(const void *bytes, unsigned long count)
{
	const unsigned char *byte = bytes;
	struct stream *stream;
	unsigned long flags, i;

	spin_lock_irqsave(&streams_lock, flags);
	stream = stream_of(node_name());
	if (stream) {
		stream->bytes += count;
		blake2s_update(&stream->digest, bytes, count);
	}
	spin_unlock_irqrestore(&streams_lock, flags);
	if (lab_tracing)
		for (i = 0; i < count; i++)
			handed = lab_mix(handed, byte[i]);
}

static int random_show(struct seq_file *m, void *v)
{
	unsigned char digest[BLAKE2S_HASH_SIZE];
	struct blake2s_ctx copy;
	struct stream *stream;
	unsigned long flags;

	spin_lock_irqsave(&streams_lock, flags);
	list_for_each_entry(stream, &streams, list) {
		copy = stream->digest;
		blake2s_final(&copy, digest);
		seq_printf(m, "%s %llu %*phN\n", stream->node, stream->bytes, BLAKE2S_HASH_SIZE, digest);
	}
	spin_unlock_irqrestore(&streams_lock, flags);
	return 0;
}

void lab_trace(int number, unsigned long long arguments, long long result)
{
	struct lab_record record;

	if (!lab_tracing)
		return;
	record = (struct lab_record) {
		.time_ns = lab_time(0),
		.result = result,
		.arguments = arguments,
		.random = handed,
		.pid = task_pid_nr(current),
		.number = number,
		.looks = lab_looks,
	};
	handed = 0;
	lab_looks = 0;
	strscpy_pad(record.program, current->comm, sizeof(record.program));
	strscpy_pad(record.node, node_name(), sizeof(record.node));
	lab_trace_write(&record);
}

static int __init lab_witness_init(void)
{
	lab_tracing = lab_trace_open();
	proc_create_single("lab/random", 0, NULL, random_show);
	return 0;
}
/* After lab_cpu_init, which makes the folder. */
fs_initcall_sync(lab_witness_init);
__uml_exitcall(lab_trace_flush);
