// SPDX-License-Identifier: MIT
/*
 * Starts a lab kernel so that it, and whatever escapes from its guest, reaches nothing of the host but its own folders.
 *
 *   sandbox OPTION... -- KERNEL ARGUMENT...
 *     --folder NAME=PATH     a folder that the kernel may read, as NAME in its working directory
 *     --writable NAME=PATH   one that it may write, too
 *     --memory BYTES         of the file system for the guest's memory, which is the kernel's working directory
 *     --file BYTES           the largest file that it may write
 *     --processes N          how many it may have at once
 *     --core N               which one it runs on
 *     --report FD            where, in a trial, a line is written for each layer that this host does not offer, LAYER:
 *                            REASON; else what the kernel has left in a file "entered", at the end
 *     --base N               of 65536 users of the host, from N on, who own nothing: what the guest's users are, where
 *                            root starts this; from 0 on it is they whom the host's users are
 *     --namespaces no        the first layer is left out, and the folders are links
 *     --try yes              nothing is started: whether all that is wanted can be had
 *
 * The layers, each of which stands alone:
 * 1. Namespaces (namespaces(7)) of users, mounts, processes, networks, IPC and names. The kernel sees its folders, its
 *    own processes, and no device. Started by root its users are the host's from BASE on, and files keep their owners by
 *    an idmapped mount (mount_setattr(2), Linux 5.12); started by anybody else it is that user, and nobody more.
 * 2. No capability, but CAP_DAC_READ_SEARCH over the users from BASE on: images have files that are not everybody's.
 * 3. Landlock (landlock(7), Linux 5.13): the folders alone, to read or to write as said; no port, no signal to others.
 * 4. A system call filter (seccomp(2)) with the calls that the kernel makes. Any other one ends who makes it.
 * 5. Limits (setrlimit(2)): processes, files, private memory; and the first to go when the host has no memory left.
 *
 * This process stays outside, says nothing, and ends as the kernel does, or with 125 where it could not start it.
 * Everything below it ends with either.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#define FOLDERS 64
/* How many users the kernel knows. */
#define USERS 65536
/* Private memory of one process: the kernel's own, and the stack of who enters programs. */
#define PRIVATE (1ull << 30)
/* Open files: each of the guest's is one of the host's. */
#define OPEN_FILES 65536
/* Where the kernel works, in a root of its own. */
#define HERE "/guest"

struct folder {
	const char *name, *path;
	int writable;
	/* Its tree, not yet mounted. */
	int tree;
};

static struct folder folders[FOLDERS];
static int count;
static unsigned long long memory, largest_file;
static long processes = 4096, core = -1, base = -1;
static int report = -1, as_root, isolated = 1, trial;

static void fail(const char *what)
{
	fprintf(stderr, "sandbox: %s: %s\n", what, strerror(errno));
	_exit(125);
}

/* A layer that the host does not offer, for whoever started this. */
static void missing(const char *layer, const char *what)
{
	if (trial && report >= 0)
		dprintf(report, "%s: %s: %s\n", layer, what, strerror(errno));
}

/* --- namespaces */

static int write_all(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done ? 0 : -1;
}

/* A user namespace whose users are those of the host from base on: its descriptor, or -1 with errno. */
static int namespace_of_users(void)
{
	char path[64], map[64];
	int ready[2], fd = -1, error = EIO;
	unsigned char byte = 0;
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		byte = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(0);
	}
	if (child > 0 && read(ready[0], &byte, 1) == 1)
		error = byte;
	if (!error) {
		snprintf(map, sizeof(map), "0 %ld %d\n", base, USERS);
		snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
		if (write_all(path, map) == 0) {
			snprintf(path, sizeof(path), "/proc/%d/gid_map", child);
			if (write_all(path, map) == 0) {
				snprintf(path, sizeof(path), "/proc/%d/ns/user", child);
				fd = open(path, O_RDONLY | O_CLOEXEC);
			}
		}
		error = errno;
	}
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	close(ready[0]);
	close(ready[1]);
	errno = error;
	return fd;
}

/* The trees of all folders, read-only but for those that are to be written; users: whose files they appear as, or -1. */
static int clone_trees(int users)
{
	struct mount_attr attributes = { 0 };
	int number;

	for (number = 0; number < count; number++) {
		struct folder *folder = &folders[number];

		folder->tree = open_tree(AT_FDCWD, folder->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
		if (folder->tree < 0)
			return -1;
		attributes.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (folder->writable ? 0 : MOUNT_ATTR_RDONLY);
		if (users >= 0 && base > 0) {
			attributes.attr_set |= MOUNT_ATTR_IDMAP;
			attributes.userns_fd = users;
		}
		if (mount_setattr(folder->tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes)) != 0)
			return -1;
	}
	return 0;
}

/* Become nobody of the host, in a user namespace of its own; 0, or -1 with what was tried in *what. */
static int enter_users(const char **what)
{
	char map[64];
	unsigned int user = geteuid(), group = getegid();
	int users;

	if (as_root) {
		*what = "a user namespace";
		users = namespace_of_users();
		if (users < 0)
			return -1;
		*what = "an idmapped mount";
		if (clone_trees(users) != 0)
			return -1;
		*what = "entering a user namespace";
		if (setgroups(0, NULL) != 0 || setns(users, CLONE_NEWUSER) != 0)
			return -1;
		close(users);
		return setresgid(0, 0, 0) || setresuid(0, 0, 0) ? -1 : 0;
	}
	*what = "a user namespace";
	if (unshare(CLONE_NEWUSER) != 0)
		return -1;
	snprintf(map, sizeof(map), "0 %u 1\n", user);
	if (write_all("/proc/self/setgroups", "deny") != 0 || write_all("/proc/self/uid_map", map) != 0)
		return -1;
	snprintf(map, sizeof(map), "0 %u 1\n", group);
	return write_all("/proc/self/gid_map", map);
}

/*
 * The guest's memory: in huge pages of the host, where it has them, for fewer faults and fewer misses of the processor's
 * address translation (Documentation/admin-guide/mm/transhuge.rst). LAB_HUGE says which they are, to the kernel; "no" is
 * for trials.
 */
static int mount_memory(void)
{
	const char *asked = getenv("LAB_HUGE");
	char options[128];

	if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) == 0 && !(asked && strcmp(asked, "no") == 0)) {
		snprintf(options, sizeof(options), "mode=700,huge=always,size=%llu", memory);
		if (mount("memory", "guest", "tmpfs", MS_NOSUID | MS_NODEV, options) == 0)
			return setenv("LAB_HUGE", "yes", 1);
	}
	unsetenv("LAB_HUGE");
	snprintf(options, sizeof(options), "mode=700,size=%llu", memory);
	return mount("memory", "guest", "tmpfs", MS_NOSUID | MS_NODEV, options);
}

/* A root of its own for this process: HERE, a tmpfs in huge pages where there are any, with the folders in it. */
static int make_root(const char **what)
{
	char path[PATH_MAX];
	int number, null;

	*what = "namespaces";
	if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0)
		return -1;
	/* Not before every host has them. */
	unshare(CLONE_NEWCGROUP);
	*what = "a root of its own";
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return -1;
	if (!as_root && clone_trees(-1) != 0)
		return -1;
	if (mount("root", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k") != 0 || chdir("/proc") != 0 ||
	    mkdir("proc", 0555) != 0 || mkdir("guest", 0700) != 0 || mkdir("dev", 0755) != 0)
		return -1;
	/* What the guest's console has for its input. */
	null = open("dev/null", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (null < 0 || close(null) != 0 || mount("/dev/null", "dev/null", NULL, MS_BIND, NULL) != 0)
		return -1;
	if (mount_memory() != 0)
		return -1;
	for (number = 0; number < count; number++) {
		snprintf(path, sizeof(path), "guest/%s", folders[number].name);
		if (mkdir(path, 0755) != 0 ||
		    move_mount(folders[number].tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) != 0)
			return -1;
	}
	return 0;
}

/* In the first process of a namespace of its own: the new root is the only one. */
static int take_root(const char **what)
{
	*what = "/proc of its own";
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL) != 0)
		return -1;
	*what = "a root of its own";
	if (syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0)
		return -1;
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0)
		return -1;
	return chdir(HERE);
}

/* --- capabilities */

static int drop_capabilities(int keep)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };
	int capability;

	for (capability = 0; capability <= 63; capability++)
		if (capability != keep && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL)
			return -1;
	if (keep >= 0)
		data[keep / 32].permitted = data[keep / 32].effective = 1u << (keep % 32);
	return syscall(SYS_capset, &header, data);
}

/* --- Landlock */

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	       LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM | \
	       LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REFER | \
	       LANDLOCK_ACCESS_FS_TRUNCATE)

struct ruleset {
	uint64_t fs, net, scoped;
};

static int allow(int rules, int fd, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };

	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static int allow_path(int rules, const char *path, uint64_t access)
{
	int fd = open(path, O_PATH | O_CLOEXEC), done;

	if (fd < 0)
		return -1;
	done = allow(rules, fd, access);
	close(fd);
	return done;
}

static int landlock(int kernel)
{
	struct ruleset handled = {
		.fs = WRITE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		      LANDLOCK_ACCESS_FS_IOCTL_DEV,
		.net = LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP,
		.scoped = LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET,
	};
	int version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	size_t size = sizeof(handled);
	int rules, number, failed = 0;

	if (version < 1)
		return -1;
	if (version < 2)
		handled.fs &= ~LANDLOCK_ACCESS_FS_REFER;
	if (version < 3)
		handled.fs &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
	if (version < 5)
		handled.fs &= ~LANDLOCK_ACCESS_FS_IOCTL_DEV;
	if (version < 6)
		size = version < 4 ? offsetof(struct ruleset, net) : offsetof(struct ruleset, scoped);
	rules = syscall(SYS_landlock_create_ruleset, &handled, size, 0);
	if (rules < 0)
		return -1;
	failed |= allow(rules, kernel, LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE);
	failed |= allow_path(rules, ".", WRITE & handled.fs);
	/* What the kernel asks of its own address space, and of the processor. */
	failed |= allow_path(rules, "/proc/self", READ);
	failed |= allow_path(rules, "/proc/cpuinfo", LANDLOCK_ACCESS_FS_READ_FILE);
	failed |= allow_path(rules, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
	/* By their paths where they are links, and trials make none. */
	for (number = 0; number < count; number++)
		failed |= allow_path(rules, isolated ? folders[number].name : folders[number].path, (folders[number].writable ? WRITE : READ) & handled.fs);
	failed |= syscall(SYS_landlock_restrict_self, rules, 0);
	close(rules);
	return failed ? -1 : 0;
}

/* --- system calls */

/* What a lab kernel does without on a host that has it, too. */
static const struct {
	int call, error;
} refused[] = {
	{ SYS_clone3, ENOSYS }, { SYS_socket, EPERM }, { SYS_ioctl, ENOTTY }, { SYS_ptrace, EPERM },
	/* It stays in the group that is ended as one. */
	{ SYS_setsid, EPERM },
};
/* What it calls: the numbers in its own program, and those that the C library hands to __syscall_cancel. */
static const int called[] = {
	/* memory */
	SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_pkey_alloc, SYS_pkey_mprotect,
	SYS_memfd_create, SYS_getrandom,
	/* files, below its folders */
	SYS_openat, SYS_close, SYS_close_range, SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev,
	SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_access, SYS_getdents64, SYS_readlink, SYS_readlinkat,
	SYS_unlink, SYS_mkdir, SYS_rmdir, SYS_rename, SYS_renameat2, SYS_link, SYS_symlink, SYS_mknodat, SYS_ftruncate,
	SYS_truncate, SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_chmod, SYS_fchmod, SYS_chown, SYS_fchown, SYS_utimensat,
	SYS_getcwd, SYS_dup, SYS_dup2, SYS_fcntl, SYS_pipe2,
	/* what it waits for, and what it hands to processes that programs are in */
	SYS_poll, SYS_ppoll, SYS_epoll_create, SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait, SYS_eventfd2, SYS_signalfd4,
	SYS_socketpair, SYS_recvmsg, SYS_sendmsg, SYS_futex,
	/* processes and signals */
	SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_kill, SYS_tgkill, SYS_getpid, SYS_getppid, SYS_gettid, SYS_getuid,
	SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getpgid, SYS_getpgrp, SYS_rt_sigaction, SYS_rt_sigprocmask,
	SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_set_tid_address, SYS_set_robust_list,
	SYS_rseq, SYS_restart_syscall, SYS_pause, SYS_seccomp, SYS_prctl, SYS_arch_prctl, SYS_personality, SYS_prlimit64,
	SYS_sched_getaffinity, SYS_uname, SYS_sysinfo,
	/* time */
	SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_timer_create, SYS_timer_settime,
};
#define CALLED (sizeof(called) / sizeof(called[0]))
#define REFUSED (sizeof(refused) / sizeof(refused[0]))
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define LOAD(field) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
#define ARGUMENT(number) LOAD(args[number])
#define RETURN(value) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value))
/* To the last decision, which is not there yet. */
#define OTHER ((struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0))
/* Where programs' addresses end (adapt_inproc.py). */
#define ABOVE_PROGRAMS 0x7f8000000000ull

static struct sock_filter code[32 + 2 * (CALLED + REFUSED)];
static int length;

static void add(struct sock_filter statement)
{
	code[length++] = statement;
}

/*
 * A program's own calls are its guest's. Where programs are entered from another process, the lab kernel has a filter of
 * its own there, which hands them over with SECCOMP_RET_TRAP: to end the process would come before that (seccomp(2)). So
 * what ends it is any other call but these from an address of the kernel's, or of the page by which it maps memory.
 */
static int filter_calls(void)
{
	struct sock_fprog program = { .filter = code };
	int others[3], number;

	add(LOAD(arch));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	others[0] = length;
	add(OTHER);
	add(LOAD(nr));
	/* A process of its own, in no namespace of its own. */
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
	add(ARGUMENT(0));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1));
	others[1] = length;
	add(OTHER);
	add(RETURN(SECCOMP_RET_ALLOW));
	/* A program to begin is a file that is open already. */
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 4));
	add(ARGUMENT(4));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 1, 0));
	others[2] = length;
	add(OTHER);
	add(RETURN(SECCOMP_RET_ALLOW));
	for (number = 0; number < (int)CALLED; number++) {
		add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, called[number], 0, 1));
		add(RETURN(SECCOMP_RET_ALLOW));
	}
	for (number = 0; number < (int)REFUSED; number++) {
		add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[number].call, 0, 1));
		add(RETURN(SECCOMP_RET_ERRNO | refused[number].error));
	}
	for (number = 0; number < 3; number++)
		code[others[number]].k = length - others[number] - 1;
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					 offsetof(struct seccomp_data, instruction_pointer) + 4));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ABOVE_PROGRAMS >> 32, 0, 1));
	add(RETURN(SECCOMP_RET_KILL_PROCESS));
	add(RETURN(SECCOMP_RET_TRAP));
	program.len = length;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* --- limits */

static void limit(int resource, rlim_t most)
{
	struct rlimit now, limit = { most, most };

	if (getrlimit(resource, &now) == 0 && now.rlim_max < most)
		limit.rlim_cur = limit.rlim_max = now.rlim_max;
	if (setrlimit(resource, &limit) != 0)
		missing("limits", "setrlimit");
}

static void set_limits(void)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_NPROC, processes);
	limit(RLIMIT_NOFILE, OPEN_FILES);
	limit(RLIMIT_DATA, PRIVATE);
	limit(RLIMIT_MEMLOCK, 0);
	limit(RLIMIT_MSGQUEUE, 0);
	limit(RLIMIT_FSIZE, largest_file);
	/* More than that is an error of who writes. */
	signal(SIGXFSZ, SIG_IGN);
}

/* --- start and end */

static void parse(int argc, char **argv, char ***kernel)
{
	int at;

	for (at = 1; at + 1 < argc && strcmp(argv[at], "--") != 0; at += 2) {
		const char *option = argv[at];
		char *value = argv[at + 1], *equals = strchr(value, '=');

		if (strcmp(option, "--folder") == 0 || strcmp(option, "--writable") == 0) {
			if (!equals || count == FOLDERS) {
				errno = EINVAL;
				fail(value);
			}
			*equals = 0;
			folders[count++] = (struct folder) { value, equals + 1, option[2] == 'w', -1 };
		} else if (strcmp(option, "--memory") == 0) {
			memory = strtoull(value, NULL, 10);
		} else if (strcmp(option, "--file") == 0) {
			largest_file = strtoull(value, NULL, 10);
		} else if (strcmp(option, "--processes") == 0) {
			processes = strtol(value, NULL, 10);
		} else if (strcmp(option, "--core") == 0) {
			core = strtol(value, NULL, 10);
		} else if (strcmp(option, "--report") == 0) {
			report = strtol(value, NULL, 10);
		} else if (strcmp(option, "--base") == 0) {
			base = strtol(value, NULL, 10);
		} else if (strcmp(option, "--namespaces") == 0) {
			isolated = strcmp(value, "no") != 0;
		} else if (strcmp(option, "--try") == 0) {
			trial = strcmp(value, "yes") == 0;
		} else {
			errno = EINVAL;
			fail(option);
		}
	}
	*kernel = argv + at + 1;
	if (at + 1 >= argc || !memory || !largest_file) {
		errno = EINVAL;
		fail("arguments");
	}
}

/* Where there are no namespaces: the folders by links in the working directory. */
static void link_folders(void)
{
	for (int number = 0; number < count; number++)
		if (symlink(folders[number].path, folders[number].name) != 0)
			fail(folders[number].name);
}

/* Wait for a process: how it ended. */
static int end_of(pid_t process)
{
	int status;

	while (waitpid(process, &status, 0) < 0)
		if (errno != EINTR)
			fail("waitpid");
	return status;
}

/*
 * The first process of a namespace gets no signal that ends it (pid_namespaces(7)), and a kernel that goes down on
 * SIGABRT would not: so it is the second. The end of the first one says how: an exit code, or 128 and a signal.
 */
static void start_second(void)
{
	pid_t second = fork();
	int status;

	if (second < 0)
		fail("fork");
	if (second == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return;
	}
	status = end_of(second);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* Become the kernel. Does not return. */
static void become(char **kernel, int file)
{
	int keep = isolated && as_root ? CAP_DAC_READ_SEARCH : -1;
	const char *what;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (isolated && take_root(&what) != 0)
		fail(what);
	set_limits();
	if (drop_capabilities(keep) != 0)
		missing("capabilities", "capset");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		fail("no_new_privs");
	if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
		fail("close_range");
	/* It would set this itself, and then begin anew. */
	personality(PER_LINUX | ADDR_NO_RANDOMIZE);
	if (isolated)
		start_second();
	if (landlock(file) != 0)
		missing("landlock", "landlock(7)");
	if (filter_calls() != 0)
		missing("system calls", "seccomp(2)");
	if (trial)
		_exit(0);
	execveat(file, "", kernel, environ, AT_EMPTY_PATH);
	fail(kernel[0]);
}

/* What the kernel says of itself. Whoever escaped may have left there what he liked. */
static void tell(int here)
{
	int file = openat(here, "entered", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	char text[1024];
	ssize_t length;

	if (file < 0)
		return;
	if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
		length = read(file, text, sizeof(text));
		if (length > 0 && write(report, text, length) != length)
			fail("--report");
	}
	close(file);
}

int main(int argc, char **argv)
{
	const char *what = NULL;
	int file, here, status, number;
	cpu_set_t cores;
	char **kernel;
	pid_t child;

	parse(argc, argv, &kernel);
	/* While /proc/self is its own: the first to go when the host has no memory left. */
	write_all("/proc/self/oom_score_adj", "1000");
	as_root = geteuid() == 0 && base >= 0;
	file = open(kernel[0], O_RDONLY | O_CLOEXEC);
	if (file < 0)
		fail(kernel[0]);
	if (core >= 0) {
		CPU_ZERO(&cores);
		CPU_SET(core, &cores);
		if (sched_setaffinity(0, sizeof(cores), &cores) != 0)
			fail("--core");
	}
	if (isolated && (enter_users(&what) != 0 || make_root(&what) != 0)) {
		missing("namespaces", what);
		fail(what);
	}
	if (!isolated) {
		unsetenv("LAB_HUGE");
		if (!trial)
			link_folders();
	}
	here = open(isolated ? "guest" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (here < 0)
		fail("the working directory");
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0)
		become(kernel, file);
	/* The kernel ends all processes of its group when it goes down. */
	signal(SIGTERM, SIG_IGN);
	status = end_of(child);
	if (report >= 0 && !trial)
		tell(here);
	if (WIFEXITED(status) && WEXITSTATUS(status) <= 128)
		return WEXITSTATUS(status);
	number = WIFEXITED(status) ? WEXITSTATUS(status) - 128 : WTERMSIG(status);
	signal(number, SIG_DFL);
	kill(getpid(), number);
	return 128 + number;
}
