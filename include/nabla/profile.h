/* Where the time of a run goes: kernels, loops, and what is in none of them.
 * Part of libnabla-runtime. */
#ifndef NABLA_PROFILE_H
#define NABLA_PROFILE_H

#include "nabla/executable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel or group of loops, over all runs since the profile began. */
typedef struct nabla_profile_row {
  const char *what; /* "kernel nabla.fused_dot @f 1x4096xf32", "loops of
                       nabla.softmax 8x512xf32"; lives as long as the
                       executable */
  uint64_t calls;
  double seconds;
  uint64_t bytes; /* of the arrays that it takes and gives */
  uint64_t flops; /* multiplications and additions of a product, else 0 */
} nabla_profile_row;

typedef struct nabla_profile {
  uint64_t runs;
  double seconds; /* of all runs, what has no row included */
  size_t row_count;
  const nabla_profile_row *rows; /* in the order of their first call */
} nabla_profile;

/* Begins a profile of the runs of `executable`, which was compiled with the
 * option `profile`; one without has no rows. Rows of an earlier profile are
 * dropped. Sessions find the peak of their memory from here on
 * (nabla_session_memory). Not while a run is on.
 * @return NABLA_OK, NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status
nabla_executable_profile_begin(nabla_executable *executable, nabla_diag *diag);

/* The profile so far; all zero where none was begun. It is valid until the next
 * run. Not while a run is on. */
NABLA_API nabla_profile
nabla_executable_profile(const nabla_executable *executable);

#ifdef __cplusplus
}
#endif

#endif
