// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's memory in huge pages of the host, where anybody may have them: fewer faults, and fewer misses of the
 * processor's address translation.
 *
 * The memory file is in a tmpfs. Whether that takes huge pages, its mount says (huge=always; Documentation/admin-guide/
 * mm/transhuge.rst), and /dev/shm's hardly ever does. A process in a user namespace of its own may mount one that does;
 * it hands the file over and ends, and the mount lives as long as the file. Where that is forbidden (in a container with
 * Docker's own seccomp profile, or by AppArmor), the file is where it always was.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <init.h>
#include <lab_huge.h>

/* linux/sched.h; the C library has them for _GNU_SOURCE alone. */
#ifndef CLONE_NEWNS
#define CLONE_NEWNS 0x00020000
#endif
#ifndef CLONE_NEWUSER
#define CLONE_NEWUSER 0x10000000
#endif
/* Bytes of a huge page; a part of one is not to be in want of room. */
#define HUGE (2ull << 20)
#define ENABLED "/sys/kernel/mm/transparent_hugepage/enabled"

int unshare(int flags);

int lab_huge_pages;

static int write_all(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* In a process of its own: a file of length bytes in a tmpfs with huge pages, at folder; -1 where that may not be. */
static int file_in_own_tmpfs(const char *folder, unsigned long long length)
{
	unsigned int user = geteuid(), group = getegid();
	char map[64], options[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return -1;
	snprintf(map, sizeof(map), "%u %u 1", user, user);
	if (!write_all("/proc/self/setgroups", "deny") || !write_all("/proc/self/uid_map", map))
		return -1;
	snprintf(map, sizeof(map), "%u %u 1", group, group);
	if (!write_all("/proc/self/gid_map", map))
		return -1;
	snprintf(options, sizeof(options), "mode=700,huge=always,size=%llu", length + 2 * HUGE);
	if (mount("memory", folder, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0)
		return -1;
	return open(folder, O_CLOEXEC | O_RDWR | O_EXCL | O_TMPFILE, 0700);
}

static int send_file(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1;
}

static int receive_file(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;
	int fd;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}

/* Whether the host has huge pages at all, which a mount that asks for them does not prove; LAB_HUGE=no is for trials. */
static int wanted(void)
{
	const char *asked = getenv("LAB_HUGE");

	return access(ENABLED, R_OK) == 0 && !(asked && strcmp(asked, "no") == 0);
}

/* A file for length bytes of memory in huge pages, mounted over folder where nobody else sees it; -1: there is none. */
int lab_huge_file(const char *folder, unsigned long long length)
{
	int ends[2], fd = -1;
	pid_t pid;

	if (!wanted() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		fd = file_in_own_tmpfs(folder, length);
		_exit(fd < 0 || !send_file(ends[1], fd));
	}
	close(ends[1]);
	if (pid > 0) {
		fd = receive_file(ends[0]);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(ends[0]);
	if (fd >= 0 && ftruncate(fd, length) != 0) {
		close(fd);
		fd = -1;
	}
	lab_huge_pages = fd >= 0;
	return fd;
}
