/* CPUs of the affinity mask and quotas of control groups. The files are those
 * of https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max) and
 * https://docs.kernel.org/scheduler/sched-bwc.html (version 1). */
#include "lib/base/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/memory.h"

/* Largest set that is tried: the kernel refuses a set too small for its CPUs.
 */
#define MAX_CPUS ((size_t)1 << 20)

#define MOST_GROUPS 16384 /* bytes of /proc/self/cgroup that are read */
#define MOST_PATH   4096
#define MOST_NUMBER 64 /* bytes of a file with one or two numbers */

/* Counts the CPUs that this process may run on. The set is on the heap, because
 * a cpu_set_t has only 1024 CPUs. */
static nabla_status count_affinity(const nabla_allocator *allocator,
                                   uint32_t *out_cpus, nabla_diag *diag) {
  int result = -1, count = 1;
  errno = EINVAL;
  for (size_t cpus = 1024; result && errno == EINVAL && cpus <= MAX_CPUS;
       cpus *= 2) {
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    void *set;
    NABLA_TRY(nabla_alloc(allocator, bytes, 1, &set, diag));
    result = sched_getaffinity(0, bytes, set);
    if (!result) count = CPU_COUNT_S(bytes, (cpu_set_t *)set);
    int error = errno;
    nabla_free(allocator, set, bytes, 1);
    errno = error;
  }
  *out_cpus = count < 1 ? 1 : (uint32_t)count;
  return NABLA_OK;
}

/* ---- files -------------------------------------------------------------- */

/* Reads a small file as text. Returns 0 if it does not exist or has `size`
 * bytes or more. */
static int read_text(const char *path, char *out, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  size_t used = 0;
  ssize_t got = -1;
  if (fd < 0) return 0;
  while (used < size && (got = read(fd, out + used, size - used)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    used += (size_t)got;
  }
  (void)close(fd);
  if (got < 0 || used >= size) return 0;
  out[used] = 0;
  return 1;
}

/* Reads digits at *at and moves *at behind them; returns 0 if there are none,
 * or if the number does not fit. */
static int take_number(const char **at, uint64_t *out) {
  const char *from = *at;
  *out = 0;
  for (; **at >= '0' && **at <= '9'; ++*at)
    if (__builtin_mul_overflow(*out, 10u, out) ||
        __builtin_add_overflow(*out, (uint64_t)(**at - '0'), out))
      return 0;
  return *at != from;
}

/* Returns the CPUs of `quota` us in each `period`, rounded up. */
static uint32_t cpus_of(uint64_t quota, uint64_t period) {
  if (!quota || !period) return UINT32_MAX;
  const uint64_t cpus = quota / period + (quota % period != 0);
  return cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX;
}

/* Reads "QUOTA PERIOD" or "max PERIOD". */
static uint32_t read_max(const char *folder) {
  char path[MOST_PATH + MOST_NUMBER], text[MOST_NUMBER];
  uint64_t quota, period;
  (void)snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (!read_text(path, text, sizeof text)) return UINT32_MAX;
  const char *at = text;
  if (!take_number(&at, &quota) || *at++ != ' ' || !take_number(&at, &period))
    return UINT32_MAX;
  return cpus_of(quota, period);
}

static int read_number(const char *folder, const char *name, uint64_t *out) {
  char path[MOST_PATH + MOST_NUMBER], text[MOST_NUMBER];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  if (!read_text(path, text, sizeof text)) return 0;
  const char *at = text;
  return take_number(&at, out);
}

/* Reads version 1, where a quota of -1 means none. */
static uint32_t read_cfs(const char *folder) {
  uint64_t quota, period;
  if (!read_number(folder, "cpu.cfs_quota_us", &quota) ||
      !read_number(folder, "cpu.cfs_period_us", &period))
    return UINT32_MAX;
  return cpus_of(quota, period);
}

/* ---- groups ------------------------------------------------------------- */

/* Returns the smallest quota of `group` and of the groups above it. In a
 * container the names may be those of the host, whose folders do not exist
 * there: the walk ends at the mount point, which is the container's group. */
static uint32_t least_quota(const char *root, const char *mount,
                            const char *group,
                            uint32_t (*quota)(const char *folder)) {
  char folder[MOST_PATH];
  const size_t least = strlen(root) + strlen(mount);
  const int length =
      snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
  uint32_t cpus = UINT32_MAX;
  if (length < 0 || (size_t)length >= sizeof folder) return cpus;
  /* names outside the namespace begin with ".." */
  const char *up = strstr(group, "/..");
  if (up && (!up[3] || up[3] == '/')) folder[least] = 0;
  for (;;) {
    const uint32_t here = quota(folder);
    if (here < cpus) cpus = here;
    char *slash = strrchr(folder, '/');
    if (strlen(folder) <= least || !slash) return cpus;
    *slash = 0;
    if (strlen(folder) < least) return cpus;
  }
}

/* Returns whether `list`, "a,b,c", contains "cpu". */
static int has_cpu(const char *list) {
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (!strncmp(at, "cpu", 3) && (at[3] == ',' || !at[3])) return 1;
  }
  return 0;
}

/* Reads a line "NUMBER:CONTROLLERS:GROUP"; version 2 names no controllers. */
static uint32_t quota_of_line(const char *root, char *line) {
  static const char *const mounts[] = {"/sys/fs/cgroup/cpu",
                                       "/sys/fs/cgroup/cpu,cpuacct",
                                       "/sys/fs/cgroup/cpuacct,cpu"};
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return UINT32_MAX;
  controllers++;
  *group++ = 0;
  if (*group != '/') return UINT32_MAX;
  if (!*controllers) {
    const uint32_t all = least_quota(root, "/sys/fs/cgroup", group, read_max);
    const uint32_t part =
        least_quota(root, "/sys/fs/cgroup/unified", group, read_max);
    return all < part ? all : part;
  }
  uint32_t cpus = UINT32_MAX;
  for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
    const uint32_t here = has_cpu(controllers)
                              ? least_quota(root, mounts[i], group, read_cfs)
                              : UINT32_MAX;
    if (here < cpus) cpus = here;
  }
  return cpus;
}

uint32_t nabla_cpus_quota(const char *root) {
  char path[MOST_PATH], text[MOST_GROUPS], *save = NULL;
  uint32_t cpus = UINT32_MAX;
  const int length = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  if (length < 0 || (size_t)length >= sizeof path ||
      !read_text(path, text, sizeof text))
    return cpus;
  for (char *line = strtok_r(text, "\n", &save); line;
       line = strtok_r(NULL, "\n", &save)) {
    const uint32_t here = quota_of_line(root, line);
    if (here < cpus) cpus = here;
  }
  return cpus;
}

nabla_status nabla_cpus_count(const char *root,
                              const nabla_allocator *allocator, uint32_t *out,
                              nabla_diag *diag) {
  NABLA_TRY(count_affinity(allocator, out, diag));
  const uint32_t quota = nabla_cpus_quota(root);
  if (quota < *out) *out = quota;
  return NABLA_OK;
}
