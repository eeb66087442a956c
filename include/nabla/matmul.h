/* Products with a weight of a model, for engines: y = x . w^T + bias, where w
 * stays packed. A plan chooses kernels for a weight once; a run allocates
 * nothing, locks nothing and may be done by any number of threads at a time.
 * Part of libnabla-runtime: no compiler is needed. */
#ifndef NABLA_MATMUL_H
#define NABLA_MATMUL_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/encoding.h"
#include "nabla/environment.h"
#include "nabla/ggml.h"
#include "nabla/model.h"
#include "nabla/numerics.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, name, summary): where the code of a plan comes from. */
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

/* "best", "compiled", "ahead", "c"; NULL for a number that has no row. */
NABLA_API const char *nabla_matmul_provider_name(
    nabla_matmul_provider provider);

/* A weight as a caller describes it: N x K elements, row-major. Each pointer
 * is aligned to its type, and lives as long as the plan. It is codes of
 * `format`, or blocks of a GGUF file, or dense where there is neither. */
typedef struct nabla_matmul_weight {
  nabla_format format; /* encoding NULL: blocks, or dense              */
  nabla_dtype dtype;   /* of a dense weight: F32, F16 or BF16          */
  /* NULL, or the format of blocks (nabla/ggml.h): `codes` are then the bytes as
   * the file has them, of any alignment, and K is whole blocks. They have their
   * scales in them: no other component is read. */
  const nabla_ggml *ggml;
  uint64_t n, k;
  const void *codes; /* or the values of a dense weight, or blocks     */
  uint64_t code_bytes;
  const void *scales; /* of the format's type; DYNAMIC8: their codes   */
  uint64_t scale_bytes;
  const uint8_t *zero_points; /* with format.zero_point                */
  uint64_t zero_point_bytes;
  /* Of DYNAMIC8 scales (nabla/dynamic8.h). */
  const float *nested_scales;
  uint64_t nested_scale_bytes;
  const float *nested_offset; /* one */
  const float *nested_map;    /* NABLA_DYNAMIC8_CODES */
  uint64_t nested_block;      /* scales that share an absmax           */
} nabla_matmul_weight;

/* Options of a plan. Members that are 0: f32 in and out, exact numerics, the
 * weight read where it lies, the best code for this CPU, the calling thread
 * alone. */
typedef struct nabla_matmul_options {
  size_t struct_size; /* sizeof(nabla_matmul_options) */
  /* The least exact that the caller accepts: where no kernel has it, f32 is
   * used, whose errors are smaller than those of all others. */
  nabla_numerics numerics;
  /* PREPACKED: the weight is copied, rearranged, if there is a kernel that
   * gains by it; else it is read in place. */
  nabla_weight_layout layout;
  nabla_matmul_provider provider;
  /* The most that code may use; of NABLA_ISA_BEST the environment variable
   * NABLA_ISA may name less (docs/C_API.md). AMX is beyond NABLA_ISA_AVX512 and
   * NABLA_ISA_NO_AMX: with
   * NABLA_ISA_BEST, where the CPU has it, plans of several rows ask the system
   * for its registers, once in the process: alternate signal stacks
   * (sigaltstack) have to be larger then, some 12 KiB. */
  nabla_isa isa;
  nabla_dtype x_type, y_type; /* F32, F16, BF16; 0 (BOOL) stands for F32 */
  /* NULL, or N elements of y_type, added to each row of y. Borrowed. */
  const void *bias;
  uint64_t bias_bytes;
  uint64_t m_max; /* no run has more rows; 0: there is no limit         */
  /* Allocator and pool are kept: what they point to outlives the plan. With a
   * pool, nabla_matmul_plan_run uses it where the product is large enough. */
  nabla_environment environment;
} nabla_matmul_options;

/* Kernels for one weight. Nothing in it changes after it was created. */
typedef struct nabla_matmul_plan nabla_matmul_plan;

/* Chooses kernels, and rearranges the weight if asked to.
 * @param weight   rank 2, N x K: what nabla_model_find gives. Its components
 *                 (of a model: the model) live as long as the plan
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
    const nabla_weight *weight, const nabla_matmul_options *options,
    nabla_matmul_plan **out, nabla_diag *diag);

/* The same of a weight that is in no model. */
NABLA_API NABLA_MUST_USE nabla_status nabla_matmul_plan_create_from(
    const nabla_matmul_weight *weight, const nabla_matmul_options *options,
    nabla_matmul_plan **out, nabla_diag *diag);

/* No run may be going on. NULL is allowed. */
NABLA_API void nabla_matmul_plan_destroy(nabla_matmul_plan *plan);

/* Bytes of the workspace that a run of `m` rows needs: of one thread's call, or
 * of all nabla_matmul_plan_run_rows of one product together. 0: none. A run of
 * fewer rows may need more than one of `m`, but never more than
 * nabla_matmul_plan_workspace_max says. A multiple of
 * NABLA_MATMUL_WORKSPACE_ALIGNMENT, as aligned_alloc asks for.
 * @return UINT64_MAX when `m` is more than the plan allows. Thread-safe. */
NABLA_API uint64_t
nabla_matmul_plan_workspace_size(const nabla_matmul_plan *plan, uint64_t m);

/* What is enough for every run of at most `m` rows: for an arena made once. */
NABLA_API uint64_t
nabla_matmul_plan_workspace_max(const nabla_matmul_plan *plan, uint64_t m);

#define NABLA_MATMUL_WORKSPACE_ALIGNMENT 64u

/* y = x . w^T + bias, on the plan's pool if it has one.
 *
 * @param x          m x K of x_type, row-major, aligned to it
 * @param m          rows; 0 does nothing
 * @param y          m x N of y_type, row-major, aligned to it; overlaps neither
 *                   x nor the workspace
 * @param workspace  nabla_matmul_plan_workspace_size bytes, aligned to
 *                   NABLA_MATMUL_WORKSPACE_ALIGNMENT, the caller's, of this run
 *                   alone; NULL where that is 0
 * @param diag       may be NULL
 * @return NABLA_OK, or NABLA_INVALID_ARGUMENT: a NULL or unaligned pointer,
 * more rows than the plan allows; y is untouched then Allocates nothing and,
 * without a pool, locks nothing; a pool has one region at a time, so that a
 * second thread waits there. Thread-safe. The bytes of y depend on the plan, x
 * and m alone. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_matmul_plan_run(const nabla_matmul_plan *plan, const void *x, uint64_t m,
                      void *y, void *workspace, nabla_diag *diag);

/* For threads of the caller's own: columns [n0, n1) of y, on the calling
 * thread. Where the workspace is not 0 bytes, nabla_matmul_plan_prepare has
 * filled it before, once for all threads.
 * @param n0, n1  at most N; multiples of nabla_matmul_plan_grain, or N
 * @return as nabla_matmul_plan_run. Gives the same bytes as one run. */
NABLA_API NABLA_MUST_USE nabla_status nabla_matmul_plan_run_rows(
    const nabla_matmul_plan *plan, const void *x, uint64_t m, void *y,
    uint64_t n0, uint64_t n1, void *workspace, nabla_diag *diag);

/* Fills the workspace from x, on the calling thread; does nothing where its
 * size is 0. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_matmul_plan_prepare(const nabla_matmul_plan *plan, const void *x,
                          uint64_t m, void *workspace, nabla_diag *diag);

/* Where [0, N) may be cut in products of `m` rows: not 0. */
NABLA_API uint64_t nabla_matmul_plan_grain(const nabla_matmul_plan *plan,
                                           uint64_t m);

#define NABLA_MATMUL_MAX_KERNELS 8u

/* What a plan is made of. Texts live as long as the plan. */
typedef struct nabla_matmul_info {
  nabla_matmul_provider provider; /* never BEST                         */
  nabla_numerics numerics;        /* that are used                      */
  nabla_weight_layout layout;     /* that is used                       */
  uint64_t n, k, m_max;           /* m_max 0: there is no limit         */
  uint64_t packed_bytes; /* of a rearranged copy, and of scales in f32 where
                            kernels do not read the weight's own */
  double packed_ms;      /* that making it took                */
  uint32_t kernel_count; /* in rising order of m_last          */
  struct {
    const char *name;
    uint64_t m_last; /* serves up to so many rows; UINT64_MAX: any */
  } kernels[NABLA_MATMUL_MAX_KERNELS];
  const char *note; /* why C computes where the caller did not ask for it, or
                       NULL */
} nabla_matmul_info;

/* Tells what was chosen. Thread-safe. */
NABLA_API void nabla_matmul_plan_describe(const nabla_matmul_plan *plan,
                                          nabla_matmul_info *out);

#ifdef __cplusplus
}
#endif

#endif
