/* SPDX-License-Identifier: GPL-2.0 */
/*
 * `tc qdisc add dev DEVICE root transit trace FILE offset NS extra NS limit PACKETS seed NUMBER` with a series of delays
 * and losses (sch_series.h) and where it starts; `tc qdisc change dev DEVICE root transit start` starts it.
 */
#include "tc_plugin.h"
#include "sch_serial.h"

static const struct { const char *word, *unit; int attribute, size; } WORDS[] = {
	{ "offset", "ns", TCA_TRANSIT_OFFSET64, 8 },
	{ "extra", "ns", TCA_TRANSIT_EXTRA64, 8 },
	{ "seed", "", TCA_TRANSIT_SEED64, 8 },
	{ "limit", "", TCA_TRANSIT_LIMIT, 4 },
};
#define COUNT (sizeof(WORDS) / sizeof(*WORDS))

static int add(struct nlmsghdr *message, const char *word, const char *text)
{
	uint64_t value;
	uint32_t narrow;
	size_t index;

	if (!strcmp(word, "trace"))
		return addattr_l(message, ROOM, TCA_TRANSIT_TRACE, text, strlen(text) + 1);
	for (index = 0; index < COUNT && strcmp(WORDS[index].word, word); index++)
		;
	if (index == COUNT) {
		fprintf(stderr, "transit: \"%s\" is not known\n", word);
		return -1;
	}
	if (read_number("transit", text, WORDS[index].unit, &value))
		return -1;
	narrow = value;
	return addattr_l(message, ROOM, WORDS[index].attribute, WORDS[index].size == 4 ? (void *)&narrow : (void *)&value,
			 WORDS[index].size);
}

static int parse(const struct qdisc_util *self, int argc, char **argv, struct nlmsghdr *message, const char *device)
{
	struct rtattr *options = begin_options(message, TCA_OPTIONS);

	if (argc == 1 && !strcmp(argv[0], "start")) {
		addattr_l(message, ROOM, TCA_TRANSIT_START, NULL, 0);
		argc = 0;
	}
	for (; argc > 1; argc -= 2, argv += 2)
		if (add(message, argv[0], argv[1]))
			return -1;
	if (argc) {
		fprintf(stderr, "transit: %s has no value\n", argv[0]);
		return -1;
	}
	end_options(message, options);
	return 0;
}

static int print(const struct qdisc_util *self, FILE *out, struct rtattr *options)
{
	uint64_t started = find_u64(options, TCA_TRANSIT_STARTED64);

	if (started)
		print_color_u64(PRINT_ANY, COLOR_NONE, "started", "started %llu ", started);
	return 0;
}

struct qdisc_util transit_qdisc_util = {
	.id = "transit",
	.parse_qopt = parse,
	.print_qopt = print,
};
