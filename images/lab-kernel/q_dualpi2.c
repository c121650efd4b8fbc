/* SPDX-License-Identifier: GPL-2.0 */
/*
 * `tc qdisc add dev DEVICE parent PARENT dualpi2 limit PACKETS target US tupdate US step_thresh US coupling_factor N
 * c_protection PERCENT`, with times in microseconds, as 15000us. (iproute2 has it from 6.18 on.)
 *
 * The kernel's defaults hold for what is not named: gains for a typical round trip, L4S' identifier as the classifier.
 */
#include "tc_plugin.h"

/* <linux/pkt_sched.h> of a later kernel. */
enum { DUALPI2_LIMIT = 1, DUALPI2_TARGET = 3, DUALPI2_TUPDATE = 4, DUALPI2_STEP_THRESH_US = 8, DUALPI2_COUPLING = 10,
       DUALPI2_C_PROTECTION = 13 };

struct dualpi2_xstats {
	uint32_t prob, delay_c, delay_l, packets_in_c, packets_in_l, maxq, ecn_mark, step_marks;
	int32_t credit;
	uint32_t memory_used, max_memory_used, memory_limit;
};

static const struct { const char *word, *unit; int attribute, size; } WORDS[] = {
	{ "limit", "", DUALPI2_LIMIT, 4 },
	{ "target", "us", DUALPI2_TARGET, 4 },
	{ "tupdate", "us", DUALPI2_TUPDATE, 4 },
	{ "step_thresh", "us", DUALPI2_STEP_THRESH_US, 4 },
	{ "coupling_factor", "", DUALPI2_COUPLING, 1 },
	{ "c_protection", "", DUALPI2_C_PROTECTION, 1 },
};
#define COUNT (sizeof(WORDS) / sizeof(*WORDS))

static int add(struct nlmsghdr *message, const char *word, const char *text)
{
	uint64_t value;
	uint32_t wide;
	uint8_t narrow;
	size_t index;

	for (index = 0; index < COUNT && strcmp(WORDS[index].word, word); index++)
		;
	if (index == COUNT) {
		fprintf(stderr, "dualpi2: \"%s\" is not known\n", word);
		return -1;
	}
	if (read_number("dualpi2", text, WORDS[index].unit, &value))
		return -1;
	wide = value;
	narrow = value;
	if (value != (WORDS[index].size == 1 ? narrow : wide)) {
		fprintf(stderr, "dualpi2: %s: %s is too large\n", word, text);
		return -1;
	}
	return addattr_l(message, ROOM, WORDS[index].attribute, WORDS[index].size == 1 ? (void *)&narrow : (void *)&wide,
			 WORDS[index].size);
}

static int parse(const struct qdisc_util *self, int argc, char **argv, struct nlmsghdr *message, const char *device)
{
	struct rtattr *options = begin_options(message, TCA_OPTIONS | NLA_F_NESTED);

	for (; argc > 1; argc -= 2, argv += 2)
		if (add(message, argv[0], argv[1]))
			return -1;
	if (argc) {
		fprintf(stderr, "dualpi2: %s has no value\n", argv[0]);
		return -1;
	}
	end_options(message, options);
	return 0;
}

static int print(const struct qdisc_util *self, FILE *out, struct rtattr *options)
{
	struct rtattr *attribute;
	int left;

	if (!options)
		return 0;
	left = RTA_PAYLOAD(options);
	for (attribute = RTA_DATA(options); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		for (size_t index = 0; index < COUNT; index++) {
			uint32_t value = 0;
			char format[64];

			if ((attribute->rta_type & NLA_TYPE_MASK) != WORDS[index].attribute)
				continue;
			memcpy(&value, RTA_DATA(attribute), WORDS[index].size);
			snprintf(format, sizeof(format), "%s %%u%s ", WORDS[index].word, WORDS[index].unit);
			print_color_uint(PRINT_ANY, COLOR_NONE, WORDS[index].word, format, value);
		}
	}
	return 0;
}

static int print_statistics(const struct qdisc_util *self, FILE *out, struct rtattr *statistics)
{
	struct dualpi2_xstats counts;

	if (!statistics || RTA_PAYLOAD(statistics) < sizeof(counts))
		return 0;
	memcpy(&counts, RTA_DATA(statistics), sizeof(counts));
	print_color_uint(PRINT_ANY, COLOR_NONE, "packets_in_c", "  pkts_in_c %u", counts.packets_in_c);
	print_color_uint(PRINT_ANY, COLOR_NONE, "packets_in_l", " pkts_in_l %u", counts.packets_in_l);
	print_color_uint(PRINT_ANY, COLOR_NONE, "delay_c", " delay_c %u", counts.delay_c);
	print_color_uint(PRINT_ANY, COLOR_NONE, "delay_l", " delay_l %u", counts.delay_l);
	print_color_uint(PRINT_ANY, COLOR_NONE, "maxq", " maxq %u", counts.maxq);
	print_color_uint(PRINT_ANY, COLOR_NONE, "ecn_mark", " ecn_mark %u", counts.ecn_mark);
	print_color_uint(PRINT_ANY, COLOR_NONE, "step_mark", " step_mark %u", counts.step_marks);
	return 0;
}

struct qdisc_util dualpi2_qdisc_util = {
	.id = "dualpi2",
	.parse_qopt = parse,
	.print_qopt = print,
	.print_xstats = print_statistics,
};
