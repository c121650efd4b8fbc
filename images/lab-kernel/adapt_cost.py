"""Lets computing cost virtual time: run behind adapt.py, in the kernel's source folder.

lab_cost.c says what is charged; here are the places that count it, and the one that charges it.
"""

from pathlib import Path

from edits import UM, add, change, put

add("lab_cost.h", UM / "include/shared/lab_cost.h")
add("lab_cost.c", UM / "kernel/lab_cost.c")
change(UM / "kernel/Makefile", (r"lab_cpu\.o lab_witness\.o", "lab_cost.o lab_cpu.o lab_witness.o"))

# A fork copies the whole task, and what it costs with it. Who calls knows what a task is.
tasks = Path("include/linux/sched.h")
put(tasks, r"#include <asm/current\.h>\n", behind="#include <lab_cost.h>\n")
put(
    tasks,
    r"\t/\* CPU-specific state of this task: \*/\n(?=\tstruct thread_struct\t\tthread;)",
    ahead="\tstruct lab_cost\t\t\tlab_cost;\n\n",
)
settings = Path("kernel/sys.c")
put(
    settings,
    r"\tcase PR_SET_NAME:\n",
    ahead="\tcase LAB_PR_COST:\n\t\terror = lab_cost_set(arg2, arg3, arg4);\n\t\tbreak;\n",
)

calls = UM / "kernel/skas/syscall.c"
put(calls, r"\tsyscall_trace_leave\(regs\);\n", behind="\tlab_cost_charge();\n")

datagrams = Path("net/ipv4/udp.c")
put(
    datagrams,
    r"^void skb_consume_udp\([^)]*\)\n\{\n",
    behind="\t/* A datagram that is only looked at has less than none. */\n"
    "\tif (len >= 0)\n\t\tlab_cost_datagrams(skb, len);\n",
)
put(datagrams, r"\terr = ip_send_skb\(sock_net\(sk\), skb\);\n", ahead="\tlab_cost_datagrams(skb, datalen);\n")
datagrams6 = Path("net/ipv6/udp.c")
put(datagrams6, r"\terr = ip6_send_skb\(skb\);\n", ahead="\tlab_cost_datagrams(skb, datalen);\n")

streams = Path("net/socket.c")
put(
    streams,
    r"\tif \(trace_sock_send_length_enabled\(\)\)\n",
    ahead="\tlab_cost_stream(sock, ret, 0);\n",
)
put(
    streams,
    r"\tif \(trace_sock_recv_length_enabled\(\)\)\n",
    ahead="\tlab_cost_stream(sock, ret, flags);\n",
)
