// SPDX-License-Identifier: GPL-2.0
/*
 * Folders of the host, read by name. The order in which readdir(3) has their entries depends on the host's file
 * system, and on its past: a guest would see another one on another machine.
 *
 * scandir(3) would do, but for its realloc(3): that is the C library's own, whose heap is small, and what it takes beside
 * is in one process of the host alone (lab_inproc.c). malloc(3) is the kernel's.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostfs.h"

struct folder {
	struct dirent **entries;
	int count;
	int room;
	int next;
};

static int by_name(const void *one, const void *other)
{
	return strcmp((*(struct dirent *const *)one)->d_name, (*(struct dirent *const *)other)->d_name);
}

/* Keep a copy of an entry: 0, or -1 where there is no memory. */
static int keep(struct folder *folder, const struct dirent *entry)
{
	struct dirent **more;

	if (folder->count == folder->room) {
		more = malloc((2 * folder->room + 32) * sizeof(*more));
		if (!more)
			return -1;
		if (folder->count)
			memcpy(more, folder->entries, folder->count * sizeof(*more));
		free(folder->entries);
		folder->entries = more;
		folder->room = 2 * folder->room + 32;
	}
	folder->entries[folder->count] = malloc(entry->d_reclen);
	if (!folder->entries[folder->count])
		return -1;
	memcpy(folder->entries[folder->count++], entry, entry->d_reclen);
	return 0;
}

void *open_dir(char *path, int *err_out)
{
	struct folder *folder = calloc(1, sizeof(*folder));
	DIR *stream = opendir(path);
	struct dirent *entry;

	*err_out = errno;
	if (!folder || !stream)
		goto out;
	*err_out = 0;
	while ((errno = 0, entry = readdir(stream)) != NULL && keep(folder, entry) == 0)
		;
	*err_out = entry ? ENOMEM : errno;
	closedir(stream);
	stream = NULL;
	if (*err_out == 0) {
		qsort(folder->entries, folder->count, sizeof(*folder->entries), by_name);
		return folder;
	}
out:
	if (stream)
		closedir(stream);
	if (folder)
		close_dir(folder);
	return NULL;
}

void seek_dir(void *stream, unsigned long long pos)
{
	struct folder *folder = stream;

	folder->next = pos < (unsigned long long)folder->count ? (int)pos : folder->count;
}

char *read_dir(void *stream, unsigned long long *pos_out, unsigned long long *ino_out, int *len_out,
	       unsigned int *type_out)
{
	struct folder *folder = stream;
	struct dirent *entry;

	if (folder->next == folder->count)
		return NULL;
	entry = folder->entries[folder->next++];
	*len_out = strlen(entry->d_name);
	*ino_out = entry->d_ino;
	*type_out = entry->d_type;
	*pos_out = folder->next;
	return entry->d_name;
}

void close_dir(void *stream)
{
	struct folder *folder = stream;

	while (folder->count)
		free(folder->entries[--folder->count]);
	free(folder->entries);
	free(folder);
}
