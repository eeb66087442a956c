/* What the parts of nabla-bench share. */
#ifndef NABLA_BENCH_BENCH_H
#define NABLA_BENCH_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/json/json.h"
#include "nabla/numerics.h"
#include "nabla/pool.h"
#include "nabla/status.h"
#include "tools/common/options.h"

enum {
#define OPTION(id, ...) BENCH_OPTION_##id,
#include "bench/nabla-bench/options.def"
#undef OPTION
  BENCH_OPTION_COUNT
};

typedef enum bench_verb {
#define VERB(id, ...) BENCH_VERB_##id,
#include "bench/nabla-bench/verbs.def"
#undef VERB
  BENCH_VERB_COUNT
} bench_verb;

/* The tool, but for `set` and `self`: tables.c. */
extern const tool bench_tool;

#define BENCH_BLOCK_ROW UINT64_MAX

/* One product y = x W^T (or x W): what kernel, limit and peers compute. */
typedef struct bench_problem {
  const char *encoding; /* of nabla/encoding.h, nabla/ggml.h, or "dense" */
  uint64_t block;       /* 0: what is usual; BENCH_BLOCK_ROW */
  uint64_t n, k, m;
  uint32_t threads;
  const char *scale; /* f32, f16, bf16, dynamic8 */
  nabla_numerics numerics;
  nabla_weight_layout layout;
  const char *isa;     /* best, portable, avx2, avx512, no-amx */
  const char *variant; /* a row of lib/kernels/variants.def; NULL: the best */
  int transposed;
} bench_problem;

typedef struct bench_settings {
  bench_verb verb;
  uint64_t given; /* a bit for each option */
  bench_problem problem;
  int json, assembly;
  int printed; /* a verb has printed its error as JSON */
  const char *encoding, *peers, *rows, *svg, *ops, *type, *model, *mesh,
      *machine;
  uint64_t turns, size_mib, context, prompt; /* 0: not given */
} bench_settings;

static inline int bench_given(const bench_settings *s, int option) {
  return (s->given >> option & 1) != 0;
}

/* ---- statistics: stats.c ---- */

/* Sorts; the value at `share` of the way from the least to the greatest. */
double bench_quantile(double *values, size_t count, double share);

/* Seconds of a clock; of the thread's CPU time where one thread works, because
 * others may use the machine. */
double bench_now(uint32_t threads);

/* ---- JSON: json.c ---- */

nabla_json_out bench_json_to_stdout(void);
void bench_json_text(nabla_json_out *out, const char *key, const char *value);
void bench_json_number(nabla_json_out *out, const char *key, double value);
void bench_json_count(nabla_json_out *out, const char *key, uint64_t value);
/* Begins an object with schema and verb (null when it is none). */
void bench_json_begin(nabla_json_out *out, bench_verb verb);
/* Adds the member "error", as of nabla-quant. */
void bench_json_error(nabla_json_out *out, const nabla_diag *why);
NABLA_MUST_USE nabla_status bench_json_end(nabla_json_out *out,
                                           nabla_diag *diag);

/* ---- verbs; each prints what it measured ---- */

NABLA_MUST_USE nabla_status bench_run_codec(bench_settings *s,
                                            nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_pool(const bench_settings *s,
                                           nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_product(const bench_settings *s,
                                              nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_compile(const bench_settings *s,
                                              nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_collectives(const bench_settings *s,
                                                  nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_ops(const bench_settings *s,
                                          nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_arrays(const bench_settings *s,
                                             nabla_diag *diag);
/* Refuses a list of operations with a name that is none. */
NABLA_MUST_USE nabla_status bench_ops_check_list(const char *list,
                                                 nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_generate(const bench_settings *s,
                                               nabla_diag *diag);
NABLA_MUST_USE nabla_status bench_run_report(const bench_settings *s,
                                             nabla_diag *diag);

#endif
