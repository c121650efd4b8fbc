// SPDX-License-Identifier: GPL-2.0
/*
 * Folders of the host, read by name. The order in which readdir(3) has their entries depends on the host's file
 * system, and on its past: a guest would see another one on another machine.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostfs.h"

struct folder {
	struct dirent **entries;
	int count;
	int next;
};

void *open_dir(char *path, int *err_out)
{
	struct folder *folder = malloc(sizeof(*folder));

	if (!folder) {
		*err_out = ENOMEM;
		return NULL;
	}
	folder->next = 0;
	folder->count = scandir(path, &folder->entries, NULL, alphasort);
	*err_out = errno;
	if (folder->count < 0) {
		free(folder);
		return NULL;
	}
	return folder;
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
