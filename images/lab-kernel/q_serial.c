/* SPDX-License-Identifier: GPL-2.0 */
/*
 * `tc qdisc add dev DEVICE root serial rate RATE`, where RATE is in bit/s, as 5000000bit, and may be 0bit.
 *
 * tc loads it by the name of the discipline (q_serial.so), looks up serial_qdisc_util in it, and has no header to offer:
 * what it shares with its parts is written down here (iproute2, tc/tc_util.h and include/libnetlink.h).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include "sch_serial.h"

struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(const struct qdisc_util *self, int argc, char **argv, struct nlmsghdr *message, const char *device);
	int (*print_qopt)(const struct qdisc_util *self, FILE *out, struct rtattr *options);
	int (*print_xstats)(const struct qdisc_util *self, FILE *out, struct rtattr *statistics);
	int (*parse_copt)(const struct qdisc_util *self, int argc, char **argv, struct nlmsghdr *message, const char *device);
	int (*print_copt)(const struct qdisc_util *self, FILE *out, struct rtattr *options);
};

extern int addattr_l(struct nlmsghdr *message, int room, int type, const void *data, int length);
extern bool is_json_context(void);

/* tc's own room for a message. */
#define ROOM 1024

static int parse(const struct qdisc_util *self, int argc, char **argv, struct nlmsghdr *message, const char *device)
{
	struct rtattr *options;
	uint64_t rate;
	char *end;

	if (argc != 2 || strcmp(argv[0], "rate")) {
		fprintf(stderr, "Usage: ... serial rate RATE\n");
		return -1;
	}
	rate = strtoull(argv[1], &end, 10);
	if (end == argv[1] || strcmp(end, "bit")) {
		fprintf(stderr, "serial: \"%s\" is no rate in bit/s, such as 5000000bit\n", argv[1]);
		return -1;
	}
	options = (struct rtattr *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));
	addattr_l(message, ROOM, TCA_OPTIONS, NULL, 0);
	addattr_l(message, ROOM, TCA_SERIAL_RATE64, &rate, sizeof(rate));
	options->rta_len = (char *)message + NLMSG_ALIGN(message->nlmsg_len) - (char *)options;
	return 0;
}

static int print(const struct qdisc_util *self, FILE *out, struct rtattr *options)
{
	struct rtattr *attribute;
	uint64_t rate;
	int left;

	if (!options || is_json_context())
		return 0;
	left = RTA_PAYLOAD(options);
	for (attribute = RTA_DATA(options); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type != TCA_SERIAL_RATE64)
			continue;
		memcpy(&rate, RTA_DATA(attribute), sizeof(rate));
		fprintf(out, "rate %llubit ", (unsigned long long)rate);
	}
	return 0;
}

struct qdisc_util serial_qdisc_util = {
	.id = "serial",
	.parse_qopt = parse,
	.print_qopt = print,
};
