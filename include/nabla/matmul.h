/* Products with a weight of a model, for engines: y = x . w^T + bias, where w
 * stays packed. A plan chooses kernels for a weight once. A run allocates
 * nothing and, without a pool, takes no lock; any number of threads may run a
 * plan at the same time. Part of libnabla-runtime: no compiler is needed. */
#ifndef NABLA_MATMUL_H
#define NABLA_MATMUL_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/encoding.h"
#include "nabla/environment.h"
#include "nabla/model.h"
#include "nabla/numerics.h"
#include "nabla/status.h"
#include "nabla/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The providers of a plan's kernels: X(id, name, summary). */
#define NABLA_MATMUL_PROVIDER_LIST(X)                              \
  X(BEST, "best", "the first below that has a kernel")             \
  X(COMPILED, "compiled",                                          \
    "generated for the shape: nabla_compiler_provide_plans")       \
  X(AHEAD, "ahead", "made ahead of time, linked into the library") \
  X(C, "c", "decoders and dot products in C: every encoding")

typedef enum nabla_matmul_provider {
#define NABLA_MATMUL_PROVIDER_ROW(id, name, summary) NABLA_MATMUL_##id,
  NABLA_MATMUL_PROVIDER_LIST(NABLA_MATMUL_PROVIDER_ROW)
#undef NABLA_MATMUL_PROVIDER_ROW
      NABLA_MATMUL_PROVIDER_COUNT
} nabla_matmul_provider;

/* Returns "best", "compiled", "ahead" or "c"; NULL for any other number. */
NABLA_API const char *nabla_matmul_provider_name(
    nabla_matmul_provider provider);

/* Options of a plan. Members that are 0 select f32 for x and y, the numerics
 * f32, the weight read in place, the best code for this CPU, and the calling
 * thread alone. */
typedef struct nabla_matmul_options {
  size_t struct_size; /* sizeof(nabla_matmul_options) */
  /* The numerics with the largest error that the caller accepts. Without a
   * kernel for them the plan uses f32, which has smaller errors than all
   * others. */
  nabla_numerics numerics;
  /* PREPACKED: the plan keeps a rearranged copy of the weight if a kernel is
   * faster with it; otherwise the weight is read in place. */
  nabla_weight_layout layout;
  nabla_matmul_provider provider;
  /* The instruction set that code may use. NABLA_ISA_BEST stands for the best
   * that this CPU has, or less if the environment variable NABLA_ISA says so
   * (docs/C_API.md). NABLA_ISA_AVX512 and NABLA_ISA_NO_AMX exclude AMX. With
   * NABLA_ISA_BEST on a CPU with AMX, plans of several rows request its
   * registers from the system, once per process; from then on alternate signal
   * stacks (sigaltstack) must be about 12 KiB larger. */
  nabla_isa isa;
  nabla_dtype x_type, y_type; /* F32, F16, BF16; 0 (BOOL) stands for F32 */
  /* NULL, or N elements of y_type that are added to each row of y. Borrowed. */
  const void *bias;
  uint64_t bias_bytes;
  uint64_t m_max; /* largest m of a run; 0: no limit */
  /* The plan keeps allocator and pool, which must outlive it.
   * nabla_matmul_plan_run uses the pool for products that are large enough. */
  nabla_environment environment;
} nabla_matmul_options;

/* Kernels for one weight. Nothing in it changes after it was created. */
typedef struct nabla_matmul_plan nabla_matmul_plan;

/* Chooses kernels, and rearranges the weight if asked to.
 * @param weight   rank 2, N x K: `desc` of what nabla_model_find gives, or a
 *                 caller's own. The description is copied; its components (of
 *                 a model: the model) live as long as the plan. Rows of a GGUF
 *                 file's blocks are whole blocks
 * @param options  may be NULL; copied
 * @param diag     of a plan that was made it is cleared, or has a note: code
 *                 NABLA_OK, and in `what` why no kernel serves the weight and
 *                 C, which is several times slower, does
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a shape, a size, an alignment, or an option
 *                                 that contradicts itself: `diag` says which
 *         NABLA_UNSUPPORTED       no kernel: this CPU lacks `isa`, a dtype that
 *                                 is no float, the provider does not have it
 *         NABLA_TOO_LARGE         sizes beyond 63 bits
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_matmul_plan_create(
    const nabla_weight_desc *weight, const nabla_matmul_options *options,
    nabla_matmul_plan **out, nabla_diag *diag);

/* Frees a plan, while no run uses it. NULL is allowed. */
NABLA_API void nabla_matmul_plan_destroy(nabla_matmul_plan *plan);

/* Returns the bytes of workspace for a run of `m` rows, a multiple of
 * NABLA_MATMUL_WORKSPACE_ALIGNMENT as aligned_alloc requires, or 0 if none is
 * needed. The calls of nabla_matmul_plan_run_rows for one product share one
 * workspace. A run of fewer rows may need more than a run of `m`, but never
 * more than nabla_matmul_plan_workspace_max returns.
 * @return UINT64_MAX if `m` is more than the plan allows. Thread-safe. */
NABLA_API uint64_t
nabla_matmul_plan_workspace_size(const nabla_matmul_plan *plan, uint64_t m);

/* Returns the bytes of workspace that suffice for every run of at most `m`
 * rows, for an engine that allocates it once. */
NABLA_API uint64_t
nabla_matmul_plan_workspace_max(const nabla_matmul_plan *plan, uint64_t m);

#define NABLA_MATMUL_WORKSPACE_ALIGNMENT 64u

/* Computes y = x . w^T + bias, on the plan's pool if it has one.
 *
 * @param x          m x K elements of x_type, row-major, aligned to the type
 * @param m          rows; 0 does nothing
 * @param y          m x N elements of y_type, row-major, aligned to the type;
 *                   overlaps neither x nor the workspace
 * @param workspace  nabla_matmul_plan_workspace_size bytes of the caller,
 *                   aligned to NABLA_MATMUL_WORKSPACE_ALIGNMENT, that no other
 *                   run uses at the same time; NULL if that size is 0
 * @param diag       may be NULL
 * @return NABLA_OK, or NABLA_INVALID_ARGUMENT for a NULL or unaligned pointer
 *         or more rows than the plan allows; y is then unchanged
 *
 * Thread-safe. Allocates nothing and, without a pool, takes no lock. A pool
 * runs one product at a time, so that a second thread waits for it. The bytes
 * of y depend only on the plan, x and m. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_matmul_plan_run(const nabla_matmul_plan *plan, const void *x, uint64_t m,
                      void *y, void *workspace, nabla_diag *diag);

/* Computes the columns [n0, n1) of y on the calling thread, for engines with
 * threads of their own. If the workspace is not 0 bytes,
 * nabla_matmul_plan_prepare must have filled it, once for all threads.
 * @param n0, n1  at most N; multiples of nabla_matmul_plan_grain, or N
 * @return as nabla_matmul_plan_run. y has the same bytes as after one run. */
NABLA_API NABLA_MUST_USE nabla_status nabla_matmul_plan_run_rows(
    const nabla_matmul_plan *plan, const void *x, uint64_t m, void *y,
    uint64_t n0, uint64_t n1, void *workspace, nabla_diag *diag);

/* Fills the workspace from x, on the calling thread; does nothing if its size
 * is 0. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_matmul_plan_prepare(const nabla_matmul_plan *plan, const void *x,
                          uint64_t m, void *workspace, nabla_diag *diag);

/* Returns the number, not 0, at whose multiples [0, N) may be divided in
 * products of `m` rows. */
NABLA_API uint64_t nabla_matmul_plan_grain(const nabla_matmul_plan *plan,
                                           uint64_t m);

#define NABLA_MATMUL_MAX_KERNELS 8u

/* A description of a plan. Texts live as long as the plan. */
typedef struct nabla_matmul_info {
  nabla_matmul_provider provider; /* never BEST */
  nabla_numerics numerics;        /* used by the plan */
  nabla_weight_layout layout;     /* used by the plan */
  uint64_t n, k, m_max;           /* m_max 0: no limit */
  uint64_t packed_bytes; /* bytes of the rearranged copy, and of scales in f32
                          * if kernels do not read the weight's own */
  double packed_ms;      /* time taken to make them */
  uint32_t kernel_count; /* the kernels follow in ascending order of m_last */
  struct {
    const char *name;
    uint64_t m_last; /* largest m that it serves; UINT64_MAX: any */
  } kernels[NABLA_MATMUL_MAX_KERNELS];
  const char *note; /* why the plan computes in C although the caller did not
                     * ask for it, or NULL */
} nabla_matmul_info;

/* Describes the plan in *out. Thread-safe. */
NABLA_API void nabla_matmul_plan_describe(const nabla_matmul_plan *plan,
                                          nabla_matmul_info *out);

#ifdef __cplusplus
}
#endif

#endif
