/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __LAB_HUGE_H
#define __LAB_HUGE_H

/* Whether the guest's memory is in huge pages of the host. */
extern int lab_huge_pages;

int lab_huge_file(const char *folder, unsigned long long length);

#endif
