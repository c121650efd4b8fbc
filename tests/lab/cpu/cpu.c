/*
 * What a program sees of its processor, its clocks and its machine, one fact a line; ends with 3. The first word says
 * what a fact follows from: what differs between processors (cpuid, auxv, cpuinfo, cache, supports, frame), the time
 * stamp counter (tsc), or what no processor decides (machine).
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dirent.h>
#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* Leaves with subleaves, and how many of these are asked for (Intel SDM vol. 2A, CPUID). */
static unsigned subleaves(unsigned leaf)
{
	switch (leaf) {
	case 0xd:
		return 64;
	case 0x4: case 0x7: case 0xb: case 0xf: case 0x10: case 0x12: case 0x14: case 0x17: case 0x18: case 0x1b:
	case 0x1d: case 0x1e: case 0x1f: case 0x20: case 0x23: case 0x24: case 0x8000001d: case 0x80000020: case 0x80000026:
		return 8;
	default:
		return 1;
	}
}

static void leaves(unsigned first, unsigned most)
{
	unsigned a, b, c, d, leaf, sub, last;

	__cpuid(first, last, b, c, d);
	/* A range that is not there answers with something else. */
	if (last < first || last > first + most)
		last = first;
	for (leaf = first; leaf <= last; leaf++)
		for (sub = 0; sub < subleaves(leaf); sub++) {
			__cpuid_count(leaf, sub, a, b, c, d);
			if (sub == 0 || a || b || c || d)
				printf("cpuid %08x.%x %08x %08x %08x %08x\n", leaf, sub, a, b, c, d);
		}
}

static void cpuid(void)
{
	unsigned a, b, c, d, low, high, mask_a, mask_d;

	leaves(0, 0xff);
	leaves(0x40000000, 0xff);
	leaves(0x80000000, 0xff);
	__cpuid(1, a, b, c, d);
	if (!(c & bit_OSXSAVE)) {
		printf("cpuid no xgetbv\n");
		return;
	}
	/* XGETBV cannot be answered by anybody but the processor; who reads it masks it by what CPUID says there is. */
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	__cpuid_count(0xd, 0, mask_a, b, c, mask_d);
	printf("cpuid xgetbv %08x %08x\n", high & mask_d, low & mask_a);
}

static void auxv(void)
{
	const char *platform = (const char *)getauxval(AT_PLATFORM);

	printf("auxv HWCAP %lx\nauxv HWCAP2 %lx\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
	printf("auxv PLATFORM %s\n", platform ? platform : "absent");
	/* 51: AT_MINSIGSTKSZ */
	if (getauxval(51))
		printf("auxv MINSIGSTKSZ %lu\n", getauxval(51));
	else
		printf("auxv MINSIGSTKSZ absent\n");
}

static void contents(const char *word, const char *path)
{
	char line[4096];
	FILE *file = fopen(path, "r");

	if (!file) {
		printf("%s %s absent\n", word, path);
		return;
	}
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		printf("%s %s: %s\n", word, path, line);
	}
	fclose(file);
}

static void folder(const char *word, const char *path)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);

	if (count < 0) {
		printf("%s %s absent\n", word, path);
		return;
	}
	printf("%s %s:", word, path);
	for (int i = 0; i < count; i++)
		if (entries[i]->d_name[0] != '.')
			printf(" %s", entries[i]->d_name);
	printf("\n");
}

static void cache(void)
{
	static const struct { const char *name; int number; } asked[] = {
		{ "LEVEL1_ICACHE_SIZE", _SC_LEVEL1_ICACHE_SIZE }, { "LEVEL1_DCACHE_SIZE", _SC_LEVEL1_DCACHE_SIZE },
		{ "LEVEL1_DCACHE_ASSOC", _SC_LEVEL1_DCACHE_ASSOC }, { "LEVEL1_DCACHE_LINESIZE", _SC_LEVEL1_DCACHE_LINESIZE },
		{ "LEVEL2_CACHE_SIZE", _SC_LEVEL2_CACHE_SIZE }, { "LEVEL2_CACHE_ASSOC", _SC_LEVEL2_CACHE_ASSOC },
		{ "LEVEL3_CACHE_SIZE", _SC_LEVEL3_CACHE_SIZE }, { "LEVEL3_CACHE_ASSOC", _SC_LEVEL3_CACHE_ASSOC },
		{ "LEVEL4_CACHE_SIZE", _SC_LEVEL4_CACHE_SIZE }, { "MINSIGSTKSZ", _SC_MINSIGSTKSZ },
		{ "SIGSTKSZ", _SC_SIGSTKSZ },
	};

	for (unsigned i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		printf("cache %s %ld\n", asked[i].name, sysconf(asked[i].number));
}

#define SUPPORTS(name) printf("supports " name " %s\n", __builtin_cpu_supports(name) ? "yes" : "no")

static void supports(void)
{
	SUPPORTS("sse4.2");
	SUPPORTS("avx");
	SUPPORTS("avx2");
	SUPPORTS("bmi2");
	SUPPORTS("fma");
	SUPPORTS("aes");
	SUPPORTS("pclmul");
	SUPPORTS("sha");
	SUPPORTS("vaes");
	SUPPORTS("vpclmulqdq");
	SUPPORTS("gfni");
	SUPPORTS("adx");
	SUPPORTS("rdrnd");
	SUPPORTS("rdseed");
	SUPPORTS("avx512f");
	SUPPORTS("avx512vl");
	SUPPORTS("amx-tile");
	SUPPORTS("x86-64-v2");
	SUPPORTS("x86-64-v3");
	SUPPORTS("x86-64-v4");
}

/* struct _fpx_sw_bytes, at its place in the 512 bytes of FXSAVE (asm/sigcontext.h). */
struct software {
	uint32_t magic, extended_size;
	uint64_t features;
	uint32_t size;
};

static volatile int caught;
static struct software saved;
static unsigned long flags;

static void handler(int number, siginfo_t *info, void *context)
{
	ucontext_t *frame = context;

	(void)number;
	(void)info;
	flags = frame->uc_flags;
	if (frame->uc_mcontext.fpregs) {
		caught = 2;
		memcpy(&saved, (char *)frame->uc_mcontext.fpregs + 464, sizeof(saved));
	} else {
		caught = 1;
	}
}

static void frame(void)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	printf("frame flags %lx, floating-point state %s\n", flags, caught == 2 ? "yes" : "no");
	if (caught == 2)
		printf("frame magic %x, extended size %u, features %llx, state size %u\n", saved.magic, saved.extended_size,
		       (unsigned long long)saved.features, saved.size);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void tsc(void)
{
	struct timespec pause = { .tv_nsec = 100000000 };
	uint64_t before, last, clock, ticks;
	unsigned core;
	int grows = 1;

	last = __rdtsc();
	for (int i = 0; i < 100; i++) {
		before = last;
		last = i % 2 ? __rdtscp(&core) : __rdtsc();
		grows = grows && last > before;
	}
	printf("tsc 100 reads %s\n", grows ? "increase" : "do not increase");
	clock = now();
	ticks = __rdtsc();
	nanosleep(&pause, NULL);
	ticks = __rdtsc() - ticks;
	clock = now() - clock;
	printf("tsc %.0f MHz of CLOCK_MONOTONIC, core %u\n", 1e3 * ticks / clock, core);
}

static void machine(void)
{
	static const char *files[] = { "online", "possible", "present", "offline", "kernel_max" };
	char path[256];
	struct utsname name;
	cpu_set_t set;

	uname(&name);
	printf("machine %s %s %s %s %s\n", name.sysname, name.nodename, name.release, name.version, name.machine);
	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	printf("machine processors %ld of %ld, affinity %d, on %d\n", sysconf(_SC_NPROCESSORS_ONLN),
	       sysconf(_SC_NPROCESSORS_CONF), CPU_COUNT(&set), sched_getcpu());
	folder("machine", "/sys/devices/system/cpu");
	for (unsigned i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", files[i]);
		contents("machine", path);
	}
	folder("machine", "/sys/devices/system/cpu/vulnerabilities");
	printf("machine page %lu, ticks %lu\n", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK));
}

int main(void)
{
	machine();
	cpuid();
	auxv();
	contents("cpuinfo", "/proc/cpuinfo");
	cache();
	supports();
	frame();
	tsc();
	return 3;
}
