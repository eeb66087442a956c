/* What nabla-run --profile prints: where the time of a run went, beside what
 * this machine reads and multiplies. */
#include "nabla/profile.h"

#include <stdlib.h>
#include <string.h>

#include "bench/nabla-bench/limit.h"
#include "tools/nabla-run/run.h"

#define READ_BYTES ((size_t)256 << 20)
#define TURNS      3
#define PEAK_FLOPS 1e9

static double fastest(const double *times, size_t count) {
  double best = times[0];
  for (size_t i = 1; i < count; i++)
    if (times[i] < best) best = times[i];
  return best;
}

/* Bytes a second of a plain read by all threads. */
static nabla_status measure_read(bench_limit *limit, double *out,
                                 nabla_diag *diag) {
  double times[TURNS];
  uint8_t *data = bench_pages(READ_BYTES);
  if (!data) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  memset(data, 1, READ_BYTES); /* pages that nothing wrote are all one */
  const bench_weights weights = {
      .areas = {{.base = data, .bytes = READ_BYTES, .stride = READ_BYTES}},
      .area_count = 1,
      .copies = 1,
      .bytes = READ_BYTES};
  limit->weights = &weights;
  const nabla_status status = bench_limit_read(limit, 0, TURNS, times, diag);
  limit->weights = NULL;
  bench_unmap(data, READ_BYTES);
  if (!status) *out = (double)READ_BYTES / fastest(times, TURNS);
  return status;
}

int run_is_profiled(const run *r) {
  return r->settings->compile.options.profile != NULL;
}

nabla_status run_profile_begin(run *r, nabla_diag *diag) {
  double times[TURNS];
  bench_limit limit = {.pool = r->environment.pool,
                       .threads = nabla_pool_size(r->environment.pool),
                       .numerics = NABLA_NUMERICS_F32,
                       .isa = "best",
                       .flops = PEAK_FLOPS};
  NABLA_TRY(measure_read(&limit, &r->read_limit, diag));
  if (bench_limit_instruction(limit.numerics, limit.isa)) {
    NABLA_TRY(bench_limit_peak(&limit, 0, TURNS, times, diag));
    r->flops_limit = PEAK_FLOPS / fastest(times, TURNS);
  }
  return nabla_executable_profile_begin(r->executable, diag);
}

/* The time that the limits of this machine allow, by the time taken. */
static double share_of(const run *r, const nabla_profile_row *row) {
  const double memory = (double)row->bytes / r->read_limit;
  const double arithmetic =
      r->flops_limit > 0 ? (double)row->flops / r->flops_limit : 0;
  const double least = memory > arithmetic ? memory : arithmetic;
  return row->seconds > 0 ? least / row->seconds : 0;
}

static int longest_first(const void *a, const void *b) {
  const double x = ((const nabla_profile_row *)a)->seconds,
               y = ((const nabla_profile_row *)b)->seconds;
  return (x < y) - (x > y);
}

/* The rows, the longest first; the caller's, to free. */
static nabla_profile_row *sorted(const nabla_profile *p) {
  nabla_profile_row *rows = calloc(p->row_count + 1, sizeof *rows);
  if (!rows) return NULL;
  memcpy(rows, p->rows, p->row_count * sizeof *rows);
  qsort(rows, p->row_count, sizeof *rows, longest_first);
  return rows;
}

static double unnamed(const nabla_profile *p) {
  double rest = p->seconds;
  for (size_t i = 0; i < p->row_count; i++) rest -= p->rows[i].seconds;
  return rest > 0 ? rest : 0;
}

static void print_row(const run *r, const nabla_profile *p,
                      const nabla_profile_row *row) {
  const double runs = (double)p->runs;
  printf("%10.1f %5.1f%% %7.0f %9.2f", row->seconds / runs * 1e6,
         row->seconds / p->seconds * 100, (double)row->calls / runs,
         (double)row->bytes / row->seconds * 1e-9);
  if (row->flops)
    printf(" %9.1f", (double)row->flops / row->seconds * 1e-9);
  else
    printf(" %9s", "");
  printf(" %8.2f  %s\n", share_of(r, row), row->what);
}

/* The memory of the session, and what it is for. */
static nabla_session_usage usage_of(const run *r) {
  nabla_session_usage usage = {.struct_size = sizeof usage};
  if (!r->session || nabla_session_memory(r->session, &usage, NULL))
    return (nabla_session_usage){0};
  return usage;
}

#define HOLDERS_SHOWN 8

static void print_memory(const run *r) {
  const nabla_session_usage usage = usage_of(r);
  if (!usage.holder_count) return;
  printf(
      "\nmemory: %llu bytes of states, %llu of runs; arrays at the peak: "
      "%llu bytes\n%10s %6s %7s\n",
      (unsigned long long)usage.state_bytes,
      (unsigned long long)usage.run_bytes, (unsigned long long)usage.peak_bytes,
      "bytes", "share", "arrays");
  uint64_t rest = usage.peak_bytes;
  for (size_t i = 0; i < usage.holder_count && i < HOLDERS_SHOWN; i++) {
    const nabla_session_holder *holder = &usage.holders[i];
    rest -= holder->bytes;
    printf("%10llu %5.1f%% %7llu  %s\n", (unsigned long long)holder->bytes,
           (double)holder->bytes / (double)usage.peak_bytes * 100,
           (unsigned long long)holder->arrays, holder->what);
  }
  if (rest)
    printf("%10llu %5.1f%% %7s  of %zu other operations\n",
           (unsigned long long)rest,
           (double)rest / (double)usage.peak_bytes * 100, "",
           usage.holder_count - HOLDERS_SHOWN);
}

void run_print_profile(const run *r) {
  const nabla_profile p = nabla_executable_profile(r->executable);
  nabla_profile_row *rows = sorted(&p);
  if (!rows || !p.runs) {
    free(rows);
    return;
  }
  printf(
      "%llu run%s, %.1f us each, %u thread%s; limits: %.1f GB/s read, %.0f "
      "GFLOP/s\n"
      "%10s %6s %7s %9s %9s %8s\n",
      (unsigned long long)p.runs, p.runs == 1 ? "" : "s",
      p.seconds / (double)p.runs * 1e6, nabla_pool_size(r->environment.pool),
      nabla_pool_size(r->environment.pool) == 1 ? "" : "s",
      r->read_limit * 1e-9, r->flops_limit * 1e-9, "us", "share", "calls",
      "GB/s", "GFLOP/s", "of limit");
  for (size_t i = 0; i < p.row_count; i++) print_row(r, &p, &rows[i]);
  printf("%10.1f %5.1f%% %37s allocation, calls, and all that has no row\n",
         unnamed(&p) / (double)p.runs * 1e6, unnamed(&p) / p.seconds * 100, "");
  free(rows);
  if (!p.row_count && r->is_saved)
    printf("the program was saved without --profile: there are no rows\n");
  print_memory(r);
}

/* ---- JSON ---- */

static void number(nabla_json_out *out, const char *key, double value) {
  nabla_json_out_key(out, key);
  nabla_json_out_double(out, value);
}

static void json_row(const run *r, const nabla_profile *p,
                     const nabla_profile_row *row, nabla_json_out *out) {
  const double runs = (double)p->runs;
  nabla_json_out_object(out);
  nabla_json_out_key(out, "what");
  nabla_json_out_string(out, row->what);
  number(out, "us", row->seconds / runs * 1e6);
  number(out, "share", row->seconds / p->seconds);
  number(out, "calls", (double)row->calls / runs);
  number(out, "bytes", (double)row->bytes / runs);
  number(out, "flops", (double)row->flops / runs);
  number(out, "of_limit", share_of(r, row));
  nabla_json_out_object_end(out);
}

static void whole(nabla_json_out *out, const char *key, uint64_t value) {
  nabla_json_out_key(out, key);
  nabla_json_out_u64(out, value);
}

static void json_memory(const run *r, nabla_json_out *out) {
  const nabla_session_usage usage = usage_of(r);
  nabla_json_out_key(out, "memory");
  nabla_json_out_object(out);
  whole(out, "state_bytes", usage.state_bytes);
  whole(out, "run_bytes", usage.run_bytes);
  whole(out, "peak_bytes", usage.peak_bytes);
  nabla_json_out_key(out, "holders");
  nabla_json_out_array(out);
  for (size_t i = 0; i < usage.holder_count; i++) {
    nabla_json_out_object(out);
    nabla_json_out_key(out, "what");
    nabla_json_out_string(out, usage.holders[i].what);
    whole(out, "bytes", usage.holders[i].bytes);
    whole(out, "arrays", usage.holders[i].arrays);
    nabla_json_out_object_end(out);
  }
  nabla_json_out_array_end(out);
  nabla_json_out_object_end(out);
}

void run_json_profile(const run *r, nabla_json_out *out) {
  const nabla_profile p = nabla_executable_profile(r->executable);
  nabla_profile_row *rows = sorted(&p);
  if (!rows || !p.runs) {
    free(rows);
    return;
  }
  nabla_json_out_key(out, "profile");
  nabla_json_out_object(out);
  nabla_json_out_key(out, "runs");
  nabla_json_out_u64(out, p.runs);
  number(out, "run_us", p.seconds / (double)p.runs * 1e6);
  nabla_json_out_key(out, "threads");
  nabla_json_out_u64(out, nabla_pool_size(r->environment.pool));
  number(out, "read_gb_per_s", r->read_limit * 1e-9);
  number(out, "gflop_per_s", r->flops_limit * 1e-9);
  number(out, "unnamed_us", unnamed(&p) / (double)p.runs * 1e6);
  nabla_json_out_key(out, "rows");
  nabla_json_out_array(out);
  for (size_t i = 0; i < p.row_count; i++) json_row(r, &p, &rows[i], out);
  nabla_json_out_array_end(out);
  json_memory(r, out);
  nabla_json_out_object_end(out);
  free(rows);
}
