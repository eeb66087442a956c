/* One problem, measured; see measure.h. */
#include "bench/nabla-bench/measure.h"

#include <string.h>

static contestant *add_row(bench_measured *self, const char *name,
                           void *context,
                           nabla_status (*run)(void *, uint64_t, uint32_t,
                                               double *, nabla_diag *)) {
  contestant *row = &self->rows[self->count++];
  snprintf(row->name, sizeof row->name, "%s", name);
  row->self = context;
  row->run = run;
  return row;
}

static void skip(bench_measured *self, const char *name, const char *why) {
  if (self->skipped_count == BENCH_MAX_ROWS) return;
  snprintf(self->skipped[self->skipped_count].name, sizeof self->skipped->name,
           "%s", name);
  snprintf(self->skipped[self->skipped_count++].why, sizeof self->skipped->why,
           "%s", why);
}

static void add_limits(bench_measured *self) {
  const bench_problem *p = &self->problem;
  const bench_weights *weights = bench_kernel_weights(self->kernel);
  const double flops = 2.0 * (double)p->n * (double)p->k * (double)p->m;
  self->limit = (bench_limit){.weights = weights,
                              .pool = bench_kernel_pool(self->kernel),
                              .threads = p->threads,
                              .numerics = p->numerics,
                              .isa = p->isa,
                              .flops = flops};
  self->read_row = (int)self->count;
  add_row(self, "read", &self->limit, bench_limit_read)->bytes =
      (double)weights->bytes;
  if (!bench_limit_instruction(p->numerics, p->isa)) {
    skip(self, "peak", "no instruction that this program knows");
    return;
  }
  self->peak_row = (int)self->count;
  add_row(self, bench_limit_instruction(p->numerics, p->isa), &self->limit,
          bench_limit_peak)
      ->flops = flops;
}

static void add_kernel(bench_measured *self) {
  const bench_weights *weights = bench_kernel_weights(self->kernel);
  const char *why = bench_kernel_objection(self->kernel);
  if (!why) why = bench_kernel_wrong(self->kernel);
  if (why) {
    skip(self, "kernel", why);
    return;
  }
  self->kernel_row = (int)self->count;
  contestant *row = add_row(self, "kernel", self->kernel, bench_kernel_run);
  row->bytes = (double)weights->bytes;
  row->flops = self->limit.flops;
  if (!bench_kernel_is_prepacked(self->kernel)) return;
  self->prepack_row = (int)self->count;
  add_row(self, "prepacking", self->kernel, bench_kernel_prepack)->bytes =
      (double)weights->bytes;
  self->copy_row = (int)self->count;
  add_row(self, "copying codes", self->kernel, bench_kernel_copy)->bytes =
      (double)weights->bytes;
}

static void add_peer(bench_measured *self, const char *peer, const char *format,
                     uint64_t bytes, unsigned bits) {
  const bench_problem *p = &self->problem;
  const uint64_t each = p->n * p->k / 8 * bits + 1;
  const uint64_t copies = bytes / each + 2;
  nabla_diag diag = NABLA_DIAG_INIT;
  char name[64];
  if (self->count == BENCH_MAX_ROWS) return;
  snprintf(name, sizeof name, "%s %s", peer, format);
  if (bench_peer_open(peer, format, p, copies > 4096 ? 4096 : (uint32_t)copies,
                      &self->peers[self->count], &diag)) {
    skip(self, name, diag.what);
    return;
  }
  bench_peer *opened = self->peers[self->count];
  contestant *row = add_row(self, name, opened, bench_peer_run);
  row->bytes = bench_peer_bytes(opened);
  row->flops = self->limit.flops;
}

static void add_peers(bench_measured *self, const char *list, uint64_t bytes) {
  static const struct {
    const char *encoding, *verbs, *peer, *format;
    unsigned bits;
  } matches[] = {
#define PEER(name, about)
#define MATCH(encoding, verbs, peer, format, bits) \
  {encoding, verbs, peer, format, bits},
#include "bench/nabla-bench/peers.def"
#undef PEER
#undef MATCH
  };
  const bench_problem *p = &self->problem;
  const char *verb = p->m == 1 ? "gemv" : "gemm";
  for (size_t i = 0; i < sizeof matches / sizeof *matches; i++)
    if (!strcmp(matches[i].encoding, p->encoding) &&
        strstr(matches[i].verbs, verb) &&
        bench_peer_is_wanted(list, matches[i].peer))
      add_peer(self, matches[i].peer, matches[i].format, bytes,
               matches[i].bits);
}

nabla_status bench_measure(const bench_problem *problem, const char *peers,
                           uint64_t bytes, uint32_t turns, bench_measured *out,
                           nabla_diag *diag) {
  *out = (bench_measured){.problem = *problem, .turns = turns};
  out->read_row = out->peak_row = out->kernel_row = out->limit_row = -1;
  out->copy_row = out->prepack_row = -1;
  NABLA_TRY(bench_kernel_open(problem, bytes, &out->kernel, diag));
  add_limits(out);
  add_kernel(out);
  add_peers(out, peers, bytes);
  NABLA_TRY(contest_run(out->rows, out->count, turns, diag));
  for (uint32_t i = 0; i < out->count; i++)
    if (out->rows[i].failed) skip(out, out->rows[i].name, out->rows[i].why);
  out->limit_row = out->read_row;
  if (out->peak_row >= 0 &&
      out->rows[out->peak_row].median > out->rows[out->read_row].median)
    out->limit_row = out->peak_row;
  return NABLA_OK;
}

void bench_measured_free(bench_measured *self) {
  contest_deinit(self->rows, self->count);
  for (uint32_t i = 0; i < self->count; i++) bench_peer_close(self->peers[i]);
  bench_kernel_close(self->kernel);
  self->kernel = NULL;
}

double bench_measured_share(const bench_measured *self, int row) {
  return contest_ratio(&self->rows[self->limit_row], &self->rows[row],
                       self->turns);
}

double bench_measured_ratio(const bench_measured *self, int row) {
  if (self->kernel_row < 0) return 0;
  return contest_ratio(&self->rows[row], &self->rows[self->kernel_row],
                       self->turns);
}
