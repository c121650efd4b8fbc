/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tc and the parts that it loads (q_*.c) share: it has no header to offer, so it is written down here (iproute2,
 * tc/tc_util.h, include/libnetlink.h, include/json_print.h). tc loads a part by the name of its discipline, as
 * q_serial.so, and looks up serial_qdisc_util in it.
 */
#ifndef TC_PLUGIN_H
#define TC_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

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
/* Here `type` is PRINT_ANY and `color` COLOR_NONE. */
extern int print_color_uint(int type, int color, const char *key, const char *format, unsigned int value);
extern int print_color_u64(int type, int color, const char *key, const char *format, uint64_t value);
enum { PRINT_ANY = 4, COLOR_NONE = 6 };

/* tc's own room for a message. */
#define ROOM 1024

/* Where the options of a message begin. */
static inline struct rtattr *begin_options(struct nlmsghdr *message, int type)
{
	struct rtattr *options = (struct rtattr *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));

	addattr_l(message, ROOM, type, NULL, 0);
	return options;
}

static inline void end_options(struct nlmsghdr *message, struct rtattr *options)
{
	options->rta_len = (char *)message + NLMSG_ALIGN(message->nlmsg_len) - (char *)options;
}

/* A whole number with its unit, as 5000000bit; -1 with a message on standard error if it is none. */
static inline int read_number(const char *discipline, const char *text, const char *unit, uint64_t *value)
{
	char *end;

	*value = strtoull(text, &end, 10);
	if (end != text && !strcmp(end, unit))
		return 0;
	fprintf(stderr, "%s: \"%s\" is no number%s%s\n", discipline, text, *unit ? " with the unit " : "", unit);
	return -1;
}

/* The value of an attribute of 64 bits among options; 0 where it is not there. */
static inline uint64_t find_u64(struct rtattr *options, int type)
{
	struct rtattr *attribute;
	uint64_t value = 0;
	int left = options ? RTA_PAYLOAD(options) : 0;

	if (options)
		for (attribute = RTA_DATA(options); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
			if (attribute->rta_type == type)
				memcpy(&value, RTA_DATA(attribute), sizeof(value));
	return value;
}

#endif
