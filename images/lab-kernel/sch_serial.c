// SPDX-License-Identifier: GPL-2.0
/*
 * A serial link: packets leave one after the other, each after its own time at the link's rate.
 *
 * The packet in service has left the queue, which is the child discipline's. A change of the rate takes nothing
 * back and lets nothing go: the packet in service goes on with its remaining bits at the new rate. At a rate of 0
 * it waits for the next change. A packet begins when the one before it ends, also where a late timer notices the
 * end late, so that no capacity is lost.
 *
 * The rate may also come from a series (sch_series.h): of rates, or of opportunities. At an opportunity so many bytes
 * leave the queue at once, of as many packets as there are; the rest of a packet waits for the next one, outside the
 * queue, and what nobody uses is lost (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", 2015). An
 * opportunity is for packets that came before it. Before the series was started nothing leaves.
 *
 * A queue that has become empty is asked for a packet once, so that it knows: below tbf and hfsc, RED never sees idle
 * times, and its average does not decay.
 */
#include <linux/math64.h>
#include <linux/module.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include "sch_serial.h"
#include "sch_series.h"

int serial_register(void);
int transit_register(void);
int sfq_module_init(void);
int dualpi2_module_init(void);
int police_init_module(void);
int skbedit_init_module(void);

struct serial_link {
	struct Qdisc *queue;
	struct sk_buff *skb;	/* in service */
	u64 rate;		/* bit/s */
	u64 work;		/* of the packet in service from `since` on: bits times NSEC_PER_SEC */
	u64 since;		/* ns */
	u64 nonempty;		/* since when something has waited in the queue, ns */
	struct series series;
	u64 end, spare;		/* of the packet in service, where there is a series of rates */
	s64 left, budget;	/* bytes of the packet in service, and of the opportunity, where it has opportunities */
	struct qdisc_watchdog watchdog;
};

static const struct nla_policy serial_policy[TCA_SERIAL_MAX + 1] = {
	[TCA_SERIAL_RATE64] = { .type = NLA_U64 },
	[TCA_SERIAL_TRACE] = { .type = NLA_NUL_STRING, .len = PATH_MAX - 1 },
	[TCA_SERIAL_OFFSET64] = { .type = NLA_U64 },
	[TCA_SERIAL_START] = { .type = NLA_FLAG },
};

static bool has_opportunities(const struct serial_link *link)
{
	return link->series.bytes;
}

/* The packet in service ends when its work is done at the rates of the series from `since` on. */
static void serial_follow(struct serial_link *link)
{
	struct series *series = &link->series;
	u64 work = link->work, rate, need;
	s64 now = link->since, until;
	u32 idle = 0;

	link->spare = 0;
	link->end = U64_MAX;
	if (!series->started)
		return;
	/* A round in which nothing is sent is followed by no other. */
	for (series_advance(series, now); idle <= series->count; series_next(series)) {
		rate = series_entry(series)[1];
		until = series_until(series);
		need = rate ? DIV64_U64_ROUND_UP(work, rate) : U64_MAX;
		if (rate && (until == SERIES_NEVER || need <= (u64)(until - now))) {
			link->end = now + need;
			link->spare = need * rate - work;
			return;
		}
		if (until == SERIES_NEVER)
			return;
		work -= (u64)(until - now) * rate;
		now = until;
		idle = rate ? 0 : idle + 1;
	}
}

/* When the packet in service ends, ns; U64_MAX for never. */
static u64 serial_end(const struct serial_link *link)
{
	if (link->series.words)
		return link->end;
	if (!link->work)
		return link->since;
	return link->rate ? link->since + DIV64_U64_ROUND_UP(link->work, link->rate) : U64_MAX;
}

/* Begin with the next packet of the queue. `spare`: how much of it passed within the nanosecond ahead of `since`. */
static void serial_begin(struct Qdisc *sch, u64 since, u64 spare)
{
	struct serial_link *link = qdisc_priv(sch);
	struct sk_buff *skb = link->queue->dequeue(link->queue);
	u64 work;

	link->skb = skb;
	if (!skb)
		return;
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	work = 8ull * NSEC_PER_SEC * qdisc_pkt_len(skb);
	link->work = work - min(work, spare);
	link->since = since;
	if (link->series.words)
		serial_follow(link);
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
	if (!link->skb && !has_opportunities(link))
		serial_begin(sch, link->nonempty, 0);
	return NET_XMIT_SUCCESS;
}

/* The packet that the opportunities up to now let go. */
static struct sk_buff *serial_use(struct Qdisc *sch)
{
	struct serial_link *link = qdisc_priv(sch);
	struct series *series = &link->series;
	s64 now = ktime_get_ns(), next;
	struct sk_buff *skb;

	while (series->started) {
		if (link->skb && link->left <= link->budget) {
			skb = link->skb;
			link->skb = NULL;
			link->budget -= link->left;
			qdisc_bstats_update(sch, skb);
			return skb;
		}
		if (link->skb) {
			link->left -= link->budget;
			link->budget = 0;
		} else if (link->budget) {
			link->skb = link->queue->dequeue(link->queue);
			if (link->skb) {
				sch->q.qlen--;
				qdisc_qstats_backlog_dec(sch, link->skb);
				link->left = (s64)qdisc_pkt_len(link->skb) + series->overhead;
				continue;
			}
			link->budget = 0;
		}
		if (link->skb || link->queue->q.qlen) {
			if (series->cursor == series->count) {
				if (!series->period)
					return NULL;
				series->cursor = 0;
				series->base += series->period;
			}
			next = series->base + (s64)*series_entry(series);
			/* Nobody had come by then. */
			if (!link->skb && next <= (s64)link->nonempty) {
				series_skip(series, link->nonempty);
				series->cursor++;
				continue;
			}
			if (next > now) {
				qdisc_watchdog_schedule_ns(&link->watchdog, next);
				qdisc_qstats_overlimit(sch);
				return NULL;
			}
			series->cursor++;
			link->budget = series->bytes;
			continue;
		}
		return NULL;
	}
	return NULL;
}

static struct sk_buff *serial_dequeue(struct Qdisc *sch)
{
	struct serial_link *link = qdisc_priv(sch);
	struct sk_buff *skb = link->skb;
	u64 end, spare;

	if (has_opportunities(link))
		return serial_use(sch);
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
	spare = link->series.words ? link->spare : (end - link->since) * link->rate - link->work;
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

/* The series starts; a packet that waits for that is in service from now on. */
static void serial_start(struct Qdisc *sch)
{
	struct serial_link *link = qdisc_priv(sch);
	u64 now;

	sch_tree_lock(sch);
	series_start(&link->series);
	now = ktime_get_ns();
	/* What waits came before the opportunities from now on. */
	link->nonempty = now - 1;
	if (link->skb) {
		link->since = now;
		serial_follow(link);
	}
	/* Whoever waits is looked at again. */
	qdisc_watchdog_schedule_ns(&link->watchdog, now);
	sch_tree_unlock(sch);
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
	if (tb[TCA_SERIAL_START] && link->series.words) {
		serial_start(sch);
		return 0;
	}
	if (link->series.words || !tb[TCA_SERIAL_RATE64]) {
		NL_SET_ERR_MSG(extack, "a serial link needs its rate, or the start of its series");
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
	struct nlattr *tb[TCA_SERIAL_MAX + 1];
	u64 offset;
	int err;

	qdisc_watchdog_init(&link->watchdog, sch);
	link->queue = &noop_qdisc;
	if (!opt)
		return -EINVAL;
	err = nla_parse_nested_deprecated(tb, TCA_SERIAL_MAX, opt, serial_policy, extack);
	if (err < 0)
		return err;
	if (!tb[TCA_SERIAL_TRACE])
		return serial_change(sch, opt, extack);
	offset = tb[TCA_SERIAL_OFFSET64] ? nla_get_u64(tb[TCA_SERIAL_OFFSET64]) : 0;
	return series_read(&link->series, nla_data(tb[TCA_SERIAL_TRACE]), 1, 2, offset, extack);
}

static void serial_destroy(struct Qdisc *sch)
{
	struct serial_link *link = qdisc_priv(sch);

	qdisc_watchdog_cancel(&link->watchdog);
	qdisc_put(link->queue);
	series_free(&link->series);
}

static int serial_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct serial_link *link = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (link->series.words ? nla_put_u64_64bit(skb, TCA_SERIAL_STARTED64, link->series.started, TCA_SERIAL_PAD)
			       : nla_put_u64_64bit(skb, TCA_SERIAL_RATE64, link->rate, TCA_SERIAL_PAD)) {
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

/*
 * Called by tbf's own (adapt.py): the kernel looks at the clock for each function that it calls at boot. So it calls
 * the others that came later, too.
 */
int __init serial_register(void)
{
	return register_qdisc(&serial_ops) ?: transit_register() ?: sfq_module_init() ?: dualpi2_module_init() ?:
	       police_init_module() ?: skbedit_init_module();
}
