"""The lab kernel's trace of system calls (LAB_TRACE), and the first difference of two traces."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

# --- Names of the system calls of x86-64, by number (arch/x86/entry/syscalls/syscall_64.tbl of Linux).


#: Records of a trace that are no system calls, by their numbers.
_OTHER_EVENTS = {-1: "CPUID", -2: "RDTSC", -3: "page fault"}
#: Calls with numbers from 0 on; those from 424 on have the same numbers on all architectures.
_FIRST = """
    read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
    rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise
    shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept
    sendto recvfrom sendmsg recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt
    clone fork vfork execve exit wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock
    fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink
    readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid
    syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups
    setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset rt_sigpending
    rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs fstatfs
    sysfs getpriority setpriority sched_setparam sched_getparam sched_setscheduler sched_getscheduler
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall vhangup
    modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday mount umount2
    swapon swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module
    get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead
    setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr
    lremovexattr fremovexattr tkill time futex sched_setaffinity sched_getaffinity set_thread_area io_setup
    io_destroy io_getevents io_submit io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old
    epoll_wait_old remap_file_pages getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create
    timer_settime timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime clock_getres
    clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open
    mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key request_key keyctl
    ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat
    fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll
    unshare set_robust_list get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait
    signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2
    epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init
    fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu
    process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom
    memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2
    pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq
"""
_COMMON_FROM = 424
_COMMON = """
    pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount
    fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr
    quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease
    futex_waitv set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue
    statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat
    removexattrat open_tree_attr
"""
_NAMES = {**_OTHER_EVENTS, **dict(enumerate(_FIRST.split())), **dict(enumerate(_COMMON.split(), _COMMON_FROM))}


def call_name(number: int) -> str:
    """The name of a system call; its number where no name is known."""
    return _NAMES.get(number, f"call {number}")


# --- syscalls


#: One record, little-endian, 80 bytes (images/lab-kernel writes it when a call returns).
RECORD = np.dtype(
    [
        ("time", "<u8"),  # of CLOCK_MONOTONIC, ns
        ("result", "<i8"),
        ("arguments", "<u8"),  # digest of the six registers
        ("random", "<u8"),  # digest of the random bytes handed out; 0 where none were
        ("pid", "<u4"),
        ("number", "<i4"),
        ("looks", "<u4"),  # reads of the clock since the process's record before
        ("zero", "<u4"),
        ("process", "S16"),
        ("host", "S16"),
    ]
)
Records = npt.NDArray[np.void]

#: Calls that are shown before the one that differs: of its process, and of all processes.
CONTEXT_CALLS = 6
#: Largest number that a failed call returns, negative (include/linux/err.h).
_MAX_ERRNO = 4095


@dataclass(frozen=True)
class Call:
    """One system call, as it returned."""

    number: int
    """Its position in the trace, from 1."""
    time_ns: int
    """Time of the lab's monotonic clock."""
    host: str
    """The endpoint it belongs to; "(none)" outside endpoints."""
    process: str
    pid: int
    name: str
    result: int
    looks: int
    """Reads of the clock since the process's call before."""

    @property
    def result_text(self) -> str:
        """Its result in readable form: a number, or the name of an error."""
        if -_MAX_ERRNO <= self.result < 0:
            return errno.errorcode.get(-self.result, str(self.result))
        return str(self.result)


@dataclass(frozen=True)
class CallDivergence:
    """The first system call in which two runs differ."""

    calls: tuple[Call | None, Call | None]
    """In each run; None where a trace has ended."""
    differs: tuple[str, ...]
    """The fields that differ: order, clock reads, arguments, random bytes, result, time."""
    before: tuple[Call, ...]
    """The calls of the first run's process (of the second's, where the first's trace has ended) before it."""
    around: tuple[Call, ...]
    """The calls of all processes before it."""


def read_calls(path: Path) -> Records:
    """The records of a trace; a truncated last record is left out. Raises OSError."""
    size = path.stat().st_size // RECORD.itemsize
    return np.fromfile(path, RECORD, count=size)


def first_differing_call(first: Records, second: Records) -> CallDivergence | None:
    """The first difference of two traces; None where they are equal."""
    shared = min(len(first), len(second))
    words = [
        np.ascontiguousarray(trace[:shared]).view("<u8").reshape(shared, RECORD.itemsize // 8)
        for trace in (first, second)
    ]
    different = np.flatnonzero((words[0] != words[1]).any(axis=1))
    if not len(different) and len(first) == len(second):
        return None
    at = int(different[0]) if len(different) else shared
    calls = tuple(_parse_call(trace, at) if at < len(trace) else None for trace in (first, second))
    reference = first if at < len(first) else second
    same_process = np.flatnonzero(reference["pid"][:at] == reference["pid"][at])[-CONTEXT_CALLS:]
    return CallDivergence(
        calls=(calls[0], calls[1]),
        differs=_differing_fields(first[at], second[at]) if None not in calls else ("order",),
        before=tuple(_parse_call(reference, int(index)) for index in same_process),
        around=tuple(_parse_call(reference, index) for index in range(max(0, at - CONTEXT_CALLS), at)),
    )


def _differing_fields(first: np.void, second: np.void) -> tuple[str, ...]:
    """The fields in which two records differ, the likelier cause first: a program's actions before its inputs."""
    if any(first[name] != second[name] for name in ("pid", "number", "host", "process")):
        return ("order",)
    labels = {"looks": "clock reads", "arguments": "arguments", "random": "random bytes", "result": "result"}
    return tuple(label for name, label in {**labels, "time": "time"}.items() if first[name] != second[name])


def _parse_call(trace: Records, index: int) -> Call:
    record = trace[index]
    return Call(
        number=index + 1,
        time_ns=int(record["time"]),
        host=record["host"].decode(errors="replace"),
        process=record["process"].decode(errors="replace"),
        pid=int(record["pid"]),
        name=call_name(int(record["number"])),
        result=int(record["result"]),
        looks=int(record["looks"]),
    )
