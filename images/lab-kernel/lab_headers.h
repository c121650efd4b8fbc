/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What nearly every file of the kernel includes, to be read once (cc.sh). The first three are what Kbuild includes ahead
 * of every file; they stay first.
 */
#include <linux/compiler-version.h>
#include <linux/kconfig.h>
#include <linux/compiler_types.h>

/* Names that Kbuild gives to each file: of what is written here, only messages have them. */
#define KBUILD_BASENAME "lab"
#define KBUILD_MODFILE "lab"
#define KBUILD_MODNAME "lab"
#define __KBUILD_MODNAME lab

#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cpu.h>
#include <linux/ethtool.h>
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/notifier.h>
#include <linux/pagemap.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/syscalls.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <net/addrconf.h>
#include <net/ip6_route.h>
#include <net/net_namespace.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/netfilter/nf_tables.h>
#include <net/netlink.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sock.h>
#include <net/tcp.h>

#undef KBUILD_BASENAME
#undef KBUILD_MODFILE
#undef KBUILD_MODNAME
#undef __KBUILD_MODNAME
