// SPDX-License-Identifier: GPL-2.0
/*
 * The way of a packet behind the bottleneck, whose delay and loss come from a series (sch_series.h): entries of a time,
 * a delay in ns, and a chance of loss in units of 2^-32.
 *
 * The values are those of the moment at which a packet comes. No packet overtakes another: where the delay falls, the
 * packets behind wait for those ahead. netem has one delay at a time, and can change it only by a command.
 */
#include <linux/math64.h>
#include <linux/module.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sock.h>
#include "sch_serial.h"
#include "sch_series.h"

int transit_register(void);

struct transit_path {
	struct series series;
	s64 extra;		/* ns */
	s64 last;		/* when the last packet leaves */
	u64 state;		/* of the random generator */
	struct qdisc_watchdog watchdog;
};

struct transit_packet {
	s64 due;
};

static const struct nla_policy transit_policy[TCA_TRANSIT_MAX + 1] = {
	[TCA_TRANSIT_TRACE] = { .type = NLA_NUL_STRING, .len = PATH_MAX - 1 },
	[TCA_TRANSIT_OFFSET64] = { .type = NLA_U64 },
	[TCA_TRANSIT_EXTRA64] = { .type = NLA_U64 },
	[TCA_TRANSIT_SEED64] = { .type = NLA_U64 },
	[TCA_TRANSIT_LIMIT] = { .type = NLA_U32 },
	[TCA_TRANSIT_START] = { .type = NLA_FLAG },
};

static struct transit_packet *packet_of(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct transit_packet));
	return (struct transit_packet *)qdisc_skb_cb(skb)->data;
}

/* SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): its upper half. */
static u32 transit_random(struct transit_path *path)
{
	u64 mixed = path->state += 0x9e3779b97f4a7c15ull;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
	return (mixed ^ (mixed >> 31)) >> 32;
}

static int transit_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct transit_path *path = qdisc_priv(sch);
	s64 now = ktime_get_ns();
	const u64 *entry;

	if (path->series.started)
		series_advance(&path->series, now);
	entry = series_entry(&path->series);
	if (entry[2] && transit_random(path) < entry[2]) {
		qdisc_qstats_drop(sch);
		__qdisc_drop(skb, to_free);
		return NET_XMIT_SUCCESS | __NET_XMIT_BYPASS;
	}
	if (sch->q.qlen >= sch->limit)
		return qdisc_drop(skb, sch, to_free);
	/* As netem does: what is on its way is on its sender's account no more. */
	skb_orphan_partial(skb);
	path->last = max(path->last, now + (s64)entry[1] + path->extra);
	packet_of(skb)->due = path->last;
	return qdisc_enqueue_tail(skb, sch);
}

static struct sk_buff *transit_dequeue(struct Qdisc *sch)
{
	struct transit_path *path = qdisc_priv(sch);
	struct sk_buff *skb = qdisc_peek_head(sch);

	if (!skb)
		return NULL;
	if (packet_of(skb)->due > (s64)ktime_get_ns()) {
		qdisc_watchdog_schedule_ns(&path->watchdog, packet_of(skb)->due);
		return NULL;
	}
	return qdisc_dequeue_head(sch);
}

static void transit_reset(struct Qdisc *sch)
{
	struct transit_path *path = qdisc_priv(sch);

	qdisc_watchdog_cancel(&path->watchdog);
	qdisc_reset_queue(sch);
}

static int transit_parse(struct nlattr **tb, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return opt ? nla_parse_nested_deprecated(tb, TCA_TRANSIT_MAX, opt, transit_policy, extack) : -EINVAL;
}

static int transit_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct transit_path *path = qdisc_priv(sch);
	struct nlattr *tb[TCA_TRANSIT_MAX + 1];
	int err = transit_parse(tb, opt, extack);

	if (err < 0)
		return err;
	if (!tb[TCA_TRANSIT_START]) {
		NL_SET_ERR_MSG(extack, "nothing of it can change but that its series starts");
		return -EINVAL;
	}
	sch_tree_lock(sch);
	series_start(&path->series);
	sch_tree_unlock(sch);
	return 0;
}

static int transit_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct transit_path *path = qdisc_priv(sch);
	struct nlattr *tb[TCA_TRANSIT_MAX + 1];
	int err;

	qdisc_watchdog_init(&path->watchdog, sch);
	err = transit_parse(tb, opt, extack);
	if (err < 0)
		return err;
	if (!tb[TCA_TRANSIT_TRACE] || !tb[TCA_TRANSIT_LIMIT]) {
		NL_SET_ERR_MSG(extack, "it needs the file of its series and a limit");
		return -EINVAL;
	}
	sch->limit = nla_get_u32(tb[TCA_TRANSIT_LIMIT]);
	path->extra = tb[TCA_TRANSIT_EXTRA64] ? nla_get_u64(tb[TCA_TRANSIT_EXTRA64]) : 0;
	path->state = tb[TCA_TRANSIT_SEED64] ? nla_get_u64(tb[TCA_TRANSIT_SEED64]) : 0;
	err = series_read(&path->series, nla_data(tb[TCA_TRANSIT_TRACE]), 3, 3,
			  tb[TCA_TRANSIT_OFFSET64] ? nla_get_u64(tb[TCA_TRANSIT_OFFSET64]) : 0, extack);
	if (err < 0)
		return err;
	/* Until it starts, the values at its offset are in force: time stands still. */
	series_advance(&path->series, path->series.offset);
	return 0;
}

static void transit_destroy(struct Qdisc *sch)
{
	struct transit_path *path = qdisc_priv(sch);

	qdisc_watchdog_cancel(&path->watchdog);
	series_free(&path->series);
}

static int transit_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct transit_path *path = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_TRANSIT_STARTED64, path->series.started, TCA_TRANSIT_PAD)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static struct Qdisc_ops transit_ops __read_mostly = {
	.id = "transit",
	.priv_size = sizeof(struct transit_path),
	.enqueue = transit_enqueue,
	.dequeue = transit_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = transit_init,
	.reset = transit_reset,
	.destroy = transit_destroy,
	.change = transit_change,
	.dump = transit_dump,
	.owner = THIS_MODULE,
};

int __init transit_register(void)
{
	return register_qdisc(&transit_ops);
}
