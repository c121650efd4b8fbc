// SPDX-License-Identifier: GPL-2.0
/*
 * Where the lab kernel takes its randomness from. With LAB_SEED in the environment of the kernel's process it
 * is a sequence that depends on that number alone, so that two runs of one lab draw the same random numbers;
 * without, it is the host's.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <os.h>
#include <lab_cpu.h>

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014). */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t bytes, jitter;
static int seeded = -1;

/* Read once, when the kernel starts: later it may be in a process without this environment (lab_inproc.c). */
static void seed(void)
{
	const char *text = getenv("LAB_SEED");

	seeded = text != NULL;
	if (seeded)
		bytes = strtoull(text, NULL, 10);
	jitter = ~bytes;
}

ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)
{
	size_t done, part;
	uint64_t word;

	if (seeded < 0)
		seed();
	if (!seeded)
		return getrandom(buf, len, flags);
	for (done = 0; done < len; done += part) {
		word = next(&bytes);
		part = len - done < sizeof(word) ? len - done : sizeof(word);
		memcpy((char *)buf + done, &word, part);
	}
	return len;
}

/* The jitter of the time stamp counter: a sequence of its own, so that who reads it changes nobody's random numbers. */
unsigned long long lab_noise(void)
{
	return next(&jitter);
}
