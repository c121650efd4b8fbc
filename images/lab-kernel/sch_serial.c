// SPDX-License-Identifier: GPL-2.0
/*
 * A serial link: packets leave one after the other, each after its own time at the link's rate.
 *
 * The packet in service has left the queue, which is the child discipline's. A change of the rate takes nothing
 * back and lets nothing go: the packet in service goes on with its remaining bits at the new rate. At a rate of 0
 * it waits for the next change. A packet begins when the one before it ends, also where a late timer notices the
 * end late, so that no capacity is lost.
 *
 * An empty queue is never asked for a packet: below this discipline, as below tbf and hfsc, RED sees no idle times.
 */
#include <linux/math64.h>
#include <linux/module.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include "sch_serial.h"

int serial_register(void);

struct serial_link {
	struct Qdisc *queue;
	struct sk_buff *skb;	/* in service */
	u64 rate;		/* bit/s */
	u64 work;		/* of the packet in service from `since` on: bits times NSEC_PER_SEC */
	u64 since;		/* ns */
	u64 nonempty;		/* since when something has waited in the queue, ns */
	struct qdisc_watchdog watchdog;
};

static const struct nla_policy serial_policy[TCA_SERIAL_MAX + 1] = {
	[TCA_SERIAL_RATE64] = { .type = NLA_U64 },
};

/* When the packet in service ends, ns; U64_MAX for never. */
static u64 serial_end(const struct serial_link *link)
{
	if (!link->work)
		return link->since;
	return link->rate ? link->since + DIV64_U64_ROUND_UP(link->work, link->rate) : U64_MAX;
}

/* Begin with the next packet of the queue. `spare`: how much of it passed within the nanosecond ahead of `since`. */
static void serial_begin(struct Qdisc *sch, u64 since, u64 spare)
{
	struct serial_link *link = qdisc_priv(sch);
	struct sk_buff *skb = link->queue->q.qlen ? link->queue->dequeue(link->queue) : NULL;
	u64 work;

	link->skb = skb;
	if (!skb)
		return;
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	work = 8ull * NSEC_PER_SEC * qdisc_pkt_len(skb);
	link->work = work - min(work, spare);
	link->since = since;
}

static int serial_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct serial_link *link = qdisc_priv(sch);
	unsigned int len = qdisc_pkt_len(skb);
	bool empty = !link->queue->q.qlen;
	int ret = qdisc_enqueue(skb, link->queue, to_free);

	if (ret != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(ret))
			qdisc_qstats_drop(sch);
		return ret;
	}
	sch->q.qlen++;
	sch->qstats.backlog += len;
	if (empty)
		link->nonempty = ktime_get_ns();
	if (!link->skb)
		serial_begin(sch, link->nonempty, 0);
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *serial_dequeue(struct Qdisc *sch)
{
	struct serial_link *link = qdisc_priv(sch);
	struct sk_buff *skb = link->skb;
	u64 end, spare;

	if (!skb)
		return NULL;
	end = serial_end(link);
	if (end > ktime_get_ns()) {
		if (end != U64_MAX)
			qdisc_watchdog_schedule_ns(&link->watchdog, end);
		qdisc_qstats_overlimit(sch);
		return NULL;
	}
	qdisc_bstats_update(sch, skb);
	spare = (end - link->since) * link->rate - link->work;
	if (link->nonempty > end)
		serial_begin(sch, link->nonempty, 0);
	else
		serial_begin(sch, end, spare);
	return skb;
}

static void serial_reset(struct Qdisc *sch)
{
	struct serial_link *link = qdisc_priv(sch);

	qdisc_watchdog_cancel(&link->watchdog);
	kfree_skb(link->skb);
	link->skb = NULL;
	qdisc_reset(link->queue);
}

static int serial_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct serial_link *link = qdisc_priv(sch);
	struct nlattr *tb[TCA_SERIAL_MAX + 1];
	u64 now, end;
	int err;

	if (!opt)
		return -EINVAL;
	err = nla_parse_nested_deprecated(tb, TCA_SERIAL_MAX, opt, serial_policy, extack);
	if (err < 0)
		return err;
	if (!tb[TCA_SERIAL_RATE64]) {
		NL_SET_ERR_MSG(extack, "a serial link needs its rate");
		return -EINVAL;
	}
	sch_tree_lock(sch);
	now = ktime_get_ns();
	if (link->skb) {
		end = serial_end(link);
		/* One that has ended by now leaves as it would have. */
		link->work = end > now ? link->work - (now - link->since) * link->rate : 0;
		link->since = min(end, now);
	}
	link->rate = nla_get_u64(tb[TCA_SERIAL_RATE64]);
	if (link->skb) {
		end = serial_end(link);
		if (end != U64_MAX)
			qdisc_watchdog_schedule_ns(&link->watchdog, end);
	}
	sch_tree_unlock(sch);
	return 0;
}

static int serial_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct serial_link *link = qdisc_priv(sch);

	qdisc_watchdog_init(&link->watchdog, sch);
	link->queue = &noop_qdisc;
	return serial_change(sch, opt, extack);
}

static void serial_destroy(struct Qdisc *sch)
{
	struct serial_link *link = qdisc_priv(sch);

	qdisc_watchdog_cancel(&link->watchdog);
	qdisc_put(link->queue);
}

static int serial_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct serial_link *link = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_SERIAL_RATE64, link->rate, TCA_SERIAL_PAD)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

/* There is one class, 1, with the queue. */
static int serial_graft(struct Qdisc *sch, unsigned long class, struct Qdisc *queue, struct Qdisc **old,
			struct netlink_ext_ack *extack)
{
	struct serial_link *link = qdisc_priv(sch);

	*old = qdisc_replace(sch, queue ?: &noop_qdisc, &link->queue);
	return 0;
}

static struct Qdisc *serial_leaf(struct Qdisc *sch, unsigned long class)
{
	struct serial_link *link = qdisc_priv(sch);

	return link->queue;
}

static unsigned long serial_find(struct Qdisc *sch, u32 classid)
{
	return 1;
}

static void serial_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop)
		tc_qdisc_stats_dump(sch, 1, walker);
}

static int serial_dump_class(struct Qdisc *sch, unsigned long class, struct sk_buff *skb, struct tcmsg *message)
{
	struct serial_link *link = qdisc_priv(sch);

	message->tcm_handle |= TC_H_MIN(1);
	message->tcm_info = link->queue->handle;
	return 0;
}

static const struct Qdisc_class_ops serial_class_ops = {
	.graft = serial_graft,
	.leaf = serial_leaf,
	.find = serial_find,
	.walk = serial_walk,
	.dump = serial_dump_class,
};

static struct Qdisc_ops serial_ops __read_mostly = {
	.id = "serial",
	.cl_ops = &serial_class_ops,
	.priv_size = sizeof(struct serial_link),
	.enqueue = serial_enqueue,
	.dequeue = serial_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = serial_init,
	.reset = serial_reset,
	.destroy = serial_destroy,
	.change = serial_change,
	.dump = serial_dump,
	.owner = THIS_MODULE,
};

/* Called by tbf's own (adapt.py): the kernel looks at the clock for each function that it calls at boot. */
int __init serial_register(void)
{
	return register_qdisc(&serial_ops);
}
