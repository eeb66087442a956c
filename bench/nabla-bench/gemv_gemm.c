/* The verbs gemv and gemm: one problem, all who can do it, in turns. */
#include <string.h>

#include "bench/nabla-bench/measure.h"

#define USUAL_TURNS 9
#define USUAL_MIB   400

static const char *role_of(const bench_measured *m, int row) {
  return row == m->read_row || row == m->peak_row      ? "limit"
         : row == m->kernel_row                        ? "kernel"
         : row == m->prepack_row || row == m->copy_row ? "prepacking"
                                                       : "peer";
}

/* ---- for people ---- */

static void print_head(const bench_measured *m) {
  const bench_problem *p = &m->problem;
  const bench_weights *w = bench_kernel_weights(m->kernel);
  const char *variant = bench_kernel_variant(m->kernel);
  const char *instruction = bench_kernel_instruction(m->kernel);
  printf("%s%s, N %llu, K %llu, M %llu, %u thread%s, %s, %s",
         bench_kernel_format(m->kernel), p->transposed ? " transposed" : "",
         (unsigned long long)p->n, (unsigned long long)p->k,
         (unsigned long long)p->m, p->threads, p->threads == 1 ? "" : "s",
         nabla_numerics_name(p->numerics), nabla_weight_layout_name(p->layout));
  if (variant) printf(", kernel '%s'", variant);
  if (instruction) printf(" by %s", instruction);
  printf("\nfor: %s\n", bench_kernel_features(m->kernel));
  printf("%u weights of %.2f MB, %u turns; times are %s\n\n", w->copies,
         (double)w->bytes * 1e-6, m->turns,
         p->threads == 1 ? "of the thread's CPU" : "of the clock");
  printf("%-24s %10s %7s %10s %8s %8s %9s %12s\n", "", "median us", "spread",
         "fastest us", "GB/s", "GFLOP/s", "of limit", "kernel's");
}

/* Instructions of AMX, of which limits know nothing: they are the same on CPUs
 * that have it and on others. */
static int is_by_tiles(const bench_measured *m) {
  const char *instruction = bench_kernel_instruction(m->kernel);
  return instruction && *instruction == 't';
}

static void print_row(const bench_measured *m, int i) {
  const contestant *c = &m->rows[i];
  char ratio[16] = "";
  if (c->failed) return;
  if (!strcmp(role_of(m, i), "peer") && m->kernel_row >= 0)
    snprintf(ratio, sizeof ratio, "%.2f", bench_measured_ratio(m, i));
  printf("%-24s %10.1f %6.1f%% %10.1f", c->name, c->median * 1e6,
         c->spread * 100, c->fastest * 1e6);
  if (c->bytes > 0)
    printf(" %8.2f", c->bytes / c->median * 1e-9);
  else
    printf(" %8s", "");
  if (c->flops > 0)
    printf(" %8.1f", c->flops / c->median * 1e-9);
  else
    printf(" %8s", "");
  if (i == m->prepack_row || i == m->copy_row)
    printf("\n");
  else
    printf(" %9.2f %12s\n", bench_measured_share(m, i), ratio);
}

static void print_text(const bench_measured *m) {
  print_head(m);
  for (uint32_t i = 0; i < m->count; i++) print_row(m, (int)i);
  if (m->prepack_row >= 0 && !m->rows[m->prepack_row].failed)
    printf("\nprepacking takes %.2f times a copy of the codes\n",
           contest_ratio(&m->rows[m->prepack_row], &m->rows[m->copy_row],
                         m->turns));
  if (is_by_tiles(m))
    printf("\n'of limit': of the peak of vectors; tiles (AMX) can do more\n");
  printf("\n'kernel's': how many times as fast as the peer the kernel is\n");
  for (uint32_t i = 0; i < m->count; i++)
    if (m->peers[i])
      printf("%s: %s\n", m->rows[i].name, bench_peer_version(m->peers[i]));
  for (uint32_t i = 0; i < m->skipped_count; i++)
    printf("skipped: %s: %s\n", m->skipped[i].name, m->skipped[i].why);
}

/* ---- JSON ---- */

static void json_problem(nabla_json_out *out, const bench_measured *m) {
  const bench_problem *p = &m->problem;
  bench_json_text(out, "format", bench_kernel_format(m->kernel));
  bench_json_count(out, "n", p->n);
  bench_json_count(out, "k", p->k);
  bench_json_count(out, "m", p->m);
  bench_json_count(out, "threads", p->threads);
  bench_json_text(out, "numerics", nabla_numerics_name(p->numerics));
  bench_json_text(out, "layout", nabla_weight_layout_name(p->layout));
  nabla_json_out_key(out, "transposed");
  nabla_json_out_bool(out, p->transposed);
  bench_json_text(out, "isa", p->isa);
  bench_json_text(out, "features", bench_kernel_features(m->kernel));
  bench_json_text(out, "kernel", bench_kernel_variant(m->kernel));
  bench_json_text(out, "instruction", bench_kernel_instruction(m->kernel));
  bench_json_count(out, "turns", m->turns);
  bench_json_count(out, "weights", bench_kernel_weights(m->kernel)->copies);
  bench_json_count(out, "weight_bytes", bench_kernel_weights(m->kernel)->bytes);
  bench_json_text(out, "limit", m->rows[m->limit_row].name);
}

static void json_rate(nabla_json_out *out, const char *key, double amount,
                      double seconds) {
  nabla_json_out_key(out, key);
  if (amount > 0)
    nabla_json_out_double(out, amount / seconds * 1e-9);
  else
    nabla_json_out_null(out);
}

static void json_row(nabla_json_out *out, const bench_measured *m, int i) {
  const contestant *c = &m->rows[i];
  if (c->failed) return;
  const int is_peer = m->peers[i] != NULL;
  nabla_json_out_object(out);
  bench_json_text(out, "name", c->name);
  bench_json_text(out, "role", role_of(m, i));
  bench_json_text(out, "version",
                  is_peer ? bench_peer_version(m->peers[i]) : NULL);
  bench_json_number(out, "median_us", c->median * 1e6);
  bench_json_number(out, "fastest_us", c->fastest * 1e6);
  bench_json_number(out, "spread", c->spread);
  json_rate(out, "gb_per_s", c->bytes, c->median);
  json_rate(out, "gflop_per_s", c->flops, c->median);
  bench_json_number(out, "of_limit", bench_measured_share(m, i));
  nabla_json_out_key(out, "kernel_times_as_fast");
  if (is_peer && m->kernel_row >= 0)
    nabla_json_out_double(out, bench_measured_ratio(m, i));
  else
    nabla_json_out_null(out);
  nabla_json_out_object_end(out);
}

static nabla_status print_json(const bench_settings *s, const bench_measured *m,
                               nabla_diag *diag) {
  nabla_json_out out;
  bench_json_begin(&out, s->verb);
  json_problem(&out, m);
  nabla_json_out_key(&out, "rows");
  nabla_json_out_array(&out);
  for (uint32_t i = 0; i < m->count; i++) json_row(&out, m, (int)i);
  nabla_json_out_array_end(&out);
  nabla_json_out_key(&out, "skipped");
  nabla_json_out_array(&out);
  for (uint32_t i = 0; i < m->skipped_count; i++) {
    nabla_json_out_object(&out);
    bench_json_text(&out, "name", m->skipped[i].name);
    bench_json_text(&out, "why", m->skipped[i].why);
    nabla_json_out_object_end(&out);
  }
  nabla_json_out_array_end(&out);
  return bench_json_end(&out, diag);
}

/* ---- the verbs ---- */

static nabla_status print_assembly(const bench_settings *s, nabla_diag *diag) {
  bench_kernel *kernel;
  NABLA_TRY(bench_kernel_open(&s->problem, 1, &kernel, diag));
  const char *why = bench_kernel_objection(kernel);
  nabla_status status = NABLA_OK;
  if (why)
    status = nabla_fail(diag, NABLA_UNSUPPORTED, "no kernel: %s", why);
  else
    bench_kernel_print(kernel);
  bench_kernel_close(kernel);
  return status;
}

nabla_status bench_run_product(const bench_settings *s, nabla_diag *diag) {
  bench_measured measured;
  if (s->assembly) return print_assembly(s, diag);
  const uint64_t bytes = (s->size_mib ? s->size_mib : USUAL_MIB) << 20;
  const uint32_t turns = s->turns ? (uint32_t)s->turns : USUAL_TURNS;
  nabla_status status =
      bench_measure(&s->problem, s->peers, bytes, turns, &measured, diag);
  if (status) return status;
  if (s->json)
    status = print_json(s, &measured, diag);
  else
    print_text(&measured);
  bench_measured_free(&measured);
  return status;
}
