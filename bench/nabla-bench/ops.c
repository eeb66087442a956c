/* The verb ops: programs of one operation, in turns with what memory and
 * arithmetic allow and with other libraries. */
#include <stdlib.h>
#include <string.h>

#include "bench/nabla-bench/contest.h"
#include "bench/nabla-bench/limit.h"
#include "bench/nabla-bench/ops_program.h"
#include "bench/nabla-bench/peer.h"
#include "bench/nabla-bench/traffic.h"
#include "lib/base/edit_distance.h"
#include "tools/nabla-quant/cli.h"

#define USUAL_TURNS 9
#define MOST_PEERS  3

/* Contestants, in this order. */
enum { PLAIN, PAST, PEAK, NABLA, PEERS, MOST_ROWS = PEERS + MOST_PEERS };

/* Libraries that run programs of ops.def; one process serves all of them. */
static const char *const peer_names[MOST_PEERS] = {"torch", "onnxruntime",
                                                   "openblas"};

typedef struct runner {
  const bench_settings *settings;
  const char *type;
  uint32_t threads, turns;
  nabla_pool *pool;
  ops_memory *memory;
  nabla_compiler *compiler;
  bench_peer *peers[MOST_PEERS];
  char missing[MOST_PEERS][256]; /* why a peer is not there */
  nabla_json_out json;
} runner;

/* One operation of one shape. */
typedef struct measured {
  const ops_row *row;
  ops_shape shape;
  ops_program program;
  bench_traffic plain, past;
  bench_limit peak;
  contestant all[MOST_ROWS];
  bench_peer *own[MOST_PEERS]; /* a process for this shape alone */
  int limit;                   /* number of the contestant */
} measured;

/* ---- lists of operations ---- */

static int is_wanted(const char *list, const char *id) {
  const size_t length = strlen(id);
  if (!strcmp(list, "all")) return 1;
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == length && !strncmp(at, id, length)) return 1;
  return 0;
}

nabla_status bench_ops_check_list(const char *list, nabla_diag *diag) {
  size_t count;
  char word[32];
  const ops_row *rows = ops_rows(&count);
  if (!strcmp(list, "all")) return NABLA_OK;
  for (const char *at = list;; at++) {
    const size_t length = strcspn(at, ",");
    snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), at);
    nabla_nearest near = nabla_nearest_begin(word, strlen(word));
    int known = 0;
    for (size_t i = 0; i < count; i++) {
      known |= !strcmp(rows[i].id, word);
      nabla_nearest_offer(&near, rows[i].id, strlen(rows[i].id));
    }
    if (!known) {
      nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                       "--ops: unknown operation '%s'", word);
      if (near.best)
        nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
      else
        nabla_diag_set_next(diag, "bench/nabla-bench/ops.def lists them");
      return status;
    }
    at += length;
    if (!*at) return NABLA_OK;
  }
}

/* ---- contestants ---- */

static void leave_out(contestant *c, const char *why) {
  c->failed = 1;
  snprintf(c->why, sizeof c->why, "%s", why);
}

static contestant *name_row(measured *m, int at, const char *name, void *self,
                            nabla_status (*run)(void *, uint64_t, uint32_t,
                                                double *, nabla_diag *)) {
  contestant *c = &m->all[at];
  snprintf(c->name, sizeof c->name, "%s", name);
  c->self = self;
  c->run = run;
  c->bytes = m->program.read + m->program.written;
  c->flops = m->program.flops;
  return c;
}

static uint64_t line_multiple(double bytes) {
  return ((uint64_t)bytes + 63) / 64 * 64;
}

static nabla_status add_limits(const runner *r, measured *m, nabla_diag *diag) {
  const ops_program *p = &m->program;
  m->plain = (bench_traffic){.reads = line_multiple(p->read),
                             .writes = line_multiple(p->written),
                             .pool = r->pool,
                             .threads = r->threads};
  uint8_t *from = bench_pages(m->plain.reads);
  m->plain.to = bench_pages(m->plain.writes);
  m->plain.from = from;
  if (!from || !m->plain.to)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  memset(from, 1, m->plain.reads); /* pages that nothing wrote are all one */
  m->past = m->plain;
  m->past.past_caches = 1;
  m->peak =
      (bench_limit){.pool = r->pool,
                    .threads = r->threads,
                    .numerics = strcmp(r->type, "bf16") ? NABLA_NUMERICS_F32
                                                        : NABLA_NUMERICS_BF16,
                    .isa = "best",
                    .flops = p->flops};
  name_row(m, PLAIN, "read+write", &m->plain, bench_traffic_run);
  name_row(m, PAST, "read+write past caches", &m->past, bench_traffic_run);
  const char *instruction =
      bench_limit_instruction(m->peak.numerics, m->peak.isa);
  name_row(m, PEAK, instruction ? instruction : "peak", &m->peak,
           bench_limit_peak);
  if (!(p->flops > 0)) leave_out(&m->all[PEAK], "it computes little");
  return NABLA_OK;
}

static int row_has_peer(const ops_row *row, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = row->peers; *at;
       at += strcspn(at, " "), at += *at == ' ')
    if (strcspn(at, " ") == length && !strncmp(at, name, length)) return 1;
  return 0;
}

/* OpenBLAS knows products x W^T of f32, by a process for each. */
static nabla_status open_openblas(const runner *r, measured *m, int peer,
                                  nabla_diag *diag) {
  const bench_problem problem = {
      .n = m->shape.b, .k = m->shape.c, .m = m->shape.a, .threads = r->threads};
  if (strcmp(r->type, "f32") != 0)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "it has no %s", r->type);
  return bench_peer_open(peer_names[peer], "f32", &problem, 1, &m->own[peer],
                         diag);
}

static void add_peer(runner *r, measured *m, int peer) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const char *name = peer_names[peer];
  contestant *c = name_row(m, PEERS + peer, name, NULL, bench_peer_run);
  nabla_status status = NABLA_OK;
  if (!row_has_peer(m->row, name) ||
      !bench_peer_is_wanted(r->settings->peers, name)) {
    leave_out(c, "");
    return;
  }
  if (*r->missing[peer]) {
    leave_out(c, r->missing[peer]);
    return;
  }
  if (!strcmp(name, "openblas")) {
    status = open_openblas(r, m, peer, &diag);
    c->self = m->own[peer];
  } else {
    status = bench_peer_open_op(
        r->peers[peer], m->row->id, r->type, r->threads,
        (const uint32_t[4]){m->shape.a, m->shape.b, m->shape.c, m->shape.d},
        &diag);
    c->self = r->peers[peer];
  }
  if (status) leave_out(c, diag.what);
}

static void choose_limit(measured *m) {
  m->limit = m->all[PAST].median < m->all[PLAIN].median ? PAST : PLAIN;
  if (!m->all[PEAK].failed && m->all[PEAK].median > m->all[m->limit].median)
    m->limit = PEAK;
}

static void free_measured(measured *m) {
  contest_deinit(m->all, MOST_ROWS);
  for (int i = 0; i < MOST_PEERS; i++) bench_peer_close(m->own[i]);
  bench_unmap((void *)(uintptr_t)m->plain.from, m->plain.reads);
  bench_unmap(m->plain.to, m->plain.writes);
  ops_program_close(&m->program);
}

/* ---- for people ---- */

static const char *shape_text(const ops_shape *s, char out[48]) {
  size_t used = (size_t)snprintf(out, 48, "%u x %u", s->a, s->b);
  if (s->c > 1 || s->d > 1)
    used += (size_t)snprintf(out + used, 48 - used, " x %u", s->c);
  if (s->d > 1) (void)snprintf(out + used, 48 - used, " x %u", s->d);
  return out;
}

static void print_head(const runner *r) {
  printf(
      "%s, %u thread%s, %u turn%s; times are %s\n\n%-18s %-22s %10s %7s %8s "
      "%8s  %s\n",
      r->type, r->threads, r->threads == 1 ? "" : "s", r->turns,
      r->turns == 1 ? "" : "s",
      r->threads == 1 ? "of the thread's CPU" : "of the clock", "", "", "us",
      "spread", "GB/s", "of limit",
      "peers: us (how many times as fast Nabla is)");
}

static void print_peers(const runner *r, const measured *m) {
  for (int i = PEERS; i < MOST_ROWS; i++)
    if (!m->all[i].failed)
      printf("  %s %.1f (%.2f)", m->all[i].name, m->all[i].median * 1e6,
             contest_ratio(&m->all[i], &m->all[NABLA], r->turns));
}

static void print_text(const runner *r, const measured *m) {
  char shape[48];
  const contestant *nabla = &m->all[NABLA];
  printf("%-18s %-22s ", m->row->id, shape_text(&m->shape, shape));
  if (nabla->failed)
    printf("%s", nabla->why);
  else
    printf("%10.1f %6.1f%% %8.2f %8.2f", nabla->median * 1e6,
           nabla->spread * 100, nabla->bytes / nabla->median * 1e-9,
           contest_ratio(&m->all[m->limit], nabla, r->turns));
  print_peers(r, m);
  printf("\n");
  for (int i = PEERS; i < MOST_ROWS; i++)
    if (m->all[i].failed && *m->all[i].why && !*r->missing[i - PEERS])
      printf("  skipped: %s: %s\n", m->all[i].name, m->all[i].why);
  fflush(stdout);
}

/* ---- JSON ---- */

static void json_shape(nabla_json_out *out, const ops_shape *s) {
  const uint32_t numbers[] = {s->a, s->b, s->c, s->d};
  nabla_json_out_key(out, "shape");
  nabla_json_out_array(out);
  for (int i = 0; i < 4; i++) nabla_json_out_u64(out, numbers[i]);
  nabla_json_out_array_end(out);
}

static void json_times(nabla_json_out *out, const contestant *c) {
  bench_json_number(out, "median_us", c->median * 1e6);
  bench_json_number(out, "fastest_us", c->fastest * 1e6);
  bench_json_number(out, "spread", c->spread);
}

static void json_peers(nabla_json_out *out, const runner *r,
                       const measured *m) {
  nabla_json_out_key(out, "peers");
  nabla_json_out_array(out);
  for (int i = PEERS; i < MOST_ROWS; i++) {
    const contestant *c = &m->all[i];
    if (c->failed) continue;
    nabla_json_out_object(out);
    bench_json_text(out, "name", c->name);
    bench_json_text(out, "version", bench_peer_version(c->self));
    json_times(out, c);
    bench_json_number(out, "times_as_fast",
                      contest_ratio(c, &m->all[NABLA], r->turns));
    nabla_json_out_object_end(out);
  }
  nabla_json_out_array_end(out);
}

static void json_row(runner *r, const measured *m) {
  const contestant *nabla = &m->all[NABLA], *limit = &m->all[m->limit];
  if (nabla->failed) return;
  nabla_json_out_object(&r->json);
  bench_json_text(&r->json, "op", m->row->id);
  json_shape(&r->json, &m->shape);
  json_times(&r->json, nabla);
  bench_json_number(&r->json, "bytes_read", m->program.read);
  bench_json_number(&r->json, "bytes_written", m->program.written);
  bench_json_number(&r->json, "flops", m->program.flops);
  bench_json_text(&r->json, "limit", limit->name);
  bench_json_number(&r->json, "limit_us", limit->median * 1e6);
  bench_json_number(&r->json, "of_limit",
                    contest_ratio(limit, nabla, r->turns));
  json_peers(&r->json, r, m);
  nabla_json_out_object_end(&r->json);
}

static void json_begin(runner *r) {
  bench_json_begin(&r->json, BENCH_VERB_ops);
  bench_json_text(&r->json, "type", r->type);
  bench_json_count(&r->json, "threads", r->threads);
  bench_json_count(&r->json, "turns", r->turns);
  nabla_json_out_key(&r->json, "rows");
  nabla_json_out_array(&r->json);
}

static nabla_status json_end(runner *r, nabla_diag *diag) {
  nabla_json_out_array_end(&r->json);
  nabla_json_out_key(&r->json, "skipped");
  nabla_json_out_array(&r->json);
  for (int i = 0; i < MOST_PEERS; i++) {
    if (!*r->missing[i]) continue;
    nabla_json_out_object(&r->json);
    bench_json_text(&r->json, "name", peer_names[i]);
    bench_json_text(&r->json, "why", r->missing[i]);
    nabla_json_out_object_end(&r->json);
  }
  nabla_json_out_array_end(&r->json);
  return bench_json_end(&r->json, diag);
}

/* ---- the verb ---- */

static nabla_status measure(runner *r, size_t row, const ops_shape *shape,
                            measured *m, nabla_diag *diag) {
  size_t count;
  m->row = &ops_rows(&count)[row];
  m->shape = *shape;
  NABLA_TRY(ops_program_open(r->compiler, row, shape, r->type, r->threads,
                             &m->program, diag));
  NABLA_TRY(add_limits(r, m, diag));
  name_row(m, NABLA, "nabla", &m->program, ops_program_run);
  for (int i = 0; i < MOST_PEERS; i++) add_peer(r, m, i);
  NABLA_TRY(contest_run(m->all, MOST_ROWS, r->turns, diag));
  choose_limit(m);
  return NABLA_OK;
}

static nabla_status run_row(runner *r, size_t row, nabla_diag *diag) {
  size_t count;
  const ops_row *rows = ops_rows(&count);
  for (int i = 0; i < OPS_MAX_SHAPES && rows[row].shapes[i].a; i++) {
    measured m = {0};
    nabla_status status = measure(r, row, &rows[row].shapes[i], &m, diag);
    if (!status && r->settings->json)
      json_row(r, &m);
    else if (!status)
      print_text(r, &m);
    free_measured(&m);
    if (status) return status;
  }
  return NABLA_OK;
}

static nabla_status run_rows(runner *r, nabla_diag *diag) {
  size_t count;
  const ops_row *rows = ops_rows(&count);
  if (r->settings->json)
    json_begin(r);
  else
    print_head(r);
  for (size_t i = 0; i < count; i++)
    if (is_wanted(r->settings->ops, rows[i].id)) NABLA_TRY(run_row(r, i, diag));
  if (r->settings->json) return json_end(r, diag);
  printf("\n");
  for (int i = 0; i < MOST_PEERS; i++)
    if (*r->missing[i])
      printf("skipped: %s: %s\n", peer_names[i], r->missing[i]);
    else if (r->peers[i] && *bench_peer_version(r->peers[i]))
      printf("%s: %s\n", peer_names[i], bench_peer_version(r->peers[i]));
  return NABLA_OK;
}

static void start_peers(runner *r) {
  for (int i = 0; i < MOST_PEERS; i++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    if (!bench_peer_is_wanted(r->settings->peers, peer_names[i])) continue;
    if (!strcmp(peer_names[i], "openblas")) continue; /* by open_openblas */
    if (bench_peer_open_ops(peer_names[i], &r->peers[i], &diag))
      snprintf(r->missing[i], sizeof r->missing[i], "%s", diag.what);
  }
}

static nabla_status run_all(runner *r, nabla_diag *diag) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  if (r->threads > 1)
    NABLA_TRY(nabla_pool_create(r->threads, NULL, &r->pool, diag));
  r->memory = ops_memory_create();
  if (!r->memory) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  const nabla_environment environment = {
      .allocator = ops_memory_allocator(r->memory), .pool = r->pool};
  NABLA_TRY(nabla_compiler_create(&options, &environment, &r->compiler, diag));
  start_peers(r);
  return run_rows(r, diag);
}

nabla_status bench_run_ops(const bench_settings *s, nabla_diag *diag) {
  runner r = {.settings = s,
              .type = s->type,
              .threads = s->problem.threads,
              .turns = s->turns ? (uint32_t)s->turns : USUAL_TURNS};
  const nabla_status status = run_all(&r, diag);
  for (int i = 0; i < MOST_PEERS; i++) bench_peer_close(r.peers[i]);
  nabla_compiler_destroy(r.compiler);
  ops_memory_destroy(r.memory);
  nabla_pool_destroy(r.pool);
  return status;
}
