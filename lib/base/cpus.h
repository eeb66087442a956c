/* How many CPUs this process may use at a time. */
#ifndef NABLA_BASE_CPUS_H
#define NABLA_BASE_CPUS_H

#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/status.h"

/* Counts the CPUs of the affinity mask, and those that the control groups of
 * this process grant by a quota (cpu.max; of version 1 cpu.cfs_quota_us),
 * rounded up, in its own group and in all above it: the least of them, from 1.
 * What cannot be read or understood limits nothing.
 * @param root  put before /proc and /sys: "", or a folder of a test
 * @return NABLA_OK, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_cpus_count(const char *root,
                                             const nabla_allocator *allocator,
                                             uint32_t *out, nabla_diag *diag);

/* The quotas alone; UINT32_MAX: there are none. */
uint32_t nabla_cpus_quota(const char *root);

#endif
