/* How many CPUs this process may use at a time. */
#ifndef NABLA_BASE_CPUS_H
#define NABLA_BASE_CPUS_H

#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/status.h"

/* Gives the number of CPUs that this process may use at a time, at least 1: the
 * least of its affinity mask and of the quotas of its control group and those
 * above (cpu.max; of version 1 cpu.cfs_quota_us), rounded up. Files that cannot
 * be read or parsed set no limit.
 * @param root  put before /proc and /sys: "", or a folder of a test
 * @return NABLA_OK, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_cpus_count(const char *root,
                                             const nabla_allocator *allocator,
                                             uint32_t *out, nabla_diag *diag);

/* The quotas alone; UINT32_MAX: there are none. */
uint32_t nabla_cpus_quota(const char *root);

#endif
