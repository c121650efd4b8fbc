/* SPDX-License-Identifier: GPL-2.0 */
/*
 * `tc qdisc add dev DEVICE root serial rate RATE`, where RATE is in bit/s, as 5000000bit, and may be 0bit;
 * `... serial trace FILE offset NS` with a series (sch_series.h) and where it starts, as 1500000000ns; and
 * `tc qdisc change dev DEVICE root serial start` starts it.
 */
#include "tc_plugin.h"
#include "sch_serial.h"

static int parse(const struct qdisc_util *self, int argc, char **argv, struct nlmsghdr *message, const char *device)
{
	struct rtattr *options = begin_options(message, TCA_OPTIONS);
	uint64_t number;

	if (argc == 2 && !strcmp(argv[0], "rate")) {
		if (read_number("serial", argv[1], "bit", &number))
			return -1;
		addattr_l(message, ROOM, TCA_SERIAL_RATE64, &number, sizeof(number));
	} else if (argc == 4 && !strcmp(argv[0], "trace") && !strcmp(argv[2], "offset")) {
		if (read_number("serial", argv[3], "ns", &number))
			return -1;
		addattr_l(message, ROOM, TCA_SERIAL_TRACE, argv[1], strlen(argv[1]) + 1);
		addattr_l(message, ROOM, TCA_SERIAL_OFFSET64, &number, sizeof(number));
	} else if (argc == 1 && !strcmp(argv[0], "start")) {
		addattr_l(message, ROOM, TCA_SERIAL_START, NULL, 0);
	} else {
		fprintf(stderr, "Usage: ... serial { rate RATE | trace FILE offset TIME | start }\n");
		return -1;
	}
	end_options(message, options);
	return 0;
}

static int print(const struct qdisc_util *self, FILE *out, struct rtattr *options)
{
	uint64_t started = find_u64(options, TCA_SERIAL_STARTED64);

	if (started)
		print_color_u64(PRINT_ANY, COLOR_NONE, "started", "started %llu ", started);
	else if (!is_json_context())
		fprintf(out, "rate %llubit ", (unsigned long long)find_u64(options, TCA_SERIAL_RATE64));
	return 0;
}

struct qdisc_util serial_qdisc_util = {
	.id = "serial",
	.parse_qopt = parse,
	.print_qopt = print,
};
