/* The verb collectives: how fast ranks exchange along each axis of a mesh. The
 * ranks are threads of this process, or under mpirun processes, of which the
 * first one reports. Writes the file that nabla-auto-shard{machine=FILE} reads.
 */
#include "bench/nabla-bench/collectives/collectives.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file/file.h"

/* ---- the mesh ---- */

static nabla_status fail_mesh(const char *text, nabla_diag *diag) {
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "--mesh '%.60s' is no list AXIS=N,... of at most %d axes "
                    "with different names, sizes from 2, and %u ranks",
                    text, BENCH_MAX_AXES, NABLA_COMM_MAX_RANKS);
}

/* Reads "NAME=N" at *at, behind which it leaves *at. */
static int read_axis(const char **at, bench_axis *axis) {
  const size_t length = strcspn(*at, "=,");
  char *end;
  if (!length || length >= sizeof axis->name || (*at)[length] != '=') return 0;
  memcpy(axis->name, *at, length);
  const char *number = *at + length + 1;
  const unsigned long size = strtoul(number, &end, 10);
  axis->size = (uint32_t)size;
  *at = end;
  return *number >= '0' && *number <= '9' && size >= 2 &&
         size <= NABLA_COMM_MAX_RANKS && (*end == ',' || !*end);
}

static nabla_status read_mesh(const char *text, bench_mesh *mesh,
                              nabla_diag *diag) {
  const char *at = text;
  mesh->ranks = 1;
  for (;; at++) {
    bench_axis *axis = &mesh->axes[mesh->axis_count];
    if (mesh->axis_count == BENCH_MAX_AXES || !read_axis(&at, axis))
      return fail_mesh(text, diag);
    for (uint32_t i = 0; i < mesh->axis_count; i++)
      if (!strcmp(mesh->axes[i].name, axis->name)) return fail_mesh(text, diag);
    mesh->axis_count++;
    mesh->ranks *= axis->size;
    if (mesh->ranks > NABLA_COMM_MAX_RANKS) return fail_mesh(text, diag);
    if (!*at) break;
  }
  uint32_t stride = 1; /* row-major: the last axis varies fastest */
  for (uint32_t i = mesh->axis_count; i-- > 0; stride *= mesh->axes[i].size)
    mesh->axes[i].stride = stride;
  return NABLA_OK;
}

/* ---- the ranks ---- */

typedef struct worker {
  bench_mesh *mesh;
  uint32_t rank;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
} worker;

static void *work(void *self) {
  worker *w = self;
  w->status = bench_measure_rank(w->mesh, w->rank, &w->diag);
  return NULL;
}

static nabla_status run_threads(bench_mesh *mesh, nabla_diag *diag) {
  worker workers[NABLA_COMM_MAX_RANKS];
  uint32_t begun = 0;
  nabla_status status = NABLA_OK;
  for (; begun < mesh->ranks; begun++) {
    worker *w = &workers[begun];
    *w = (worker){.mesh = mesh, .rank = begun, .diag = NABLA_DIAG_INIT};
    if (pthread_create(&w->thread, NULL, work, w)) {
      nabla_comm_fail(mesh->comm, begun, "no thread");
      status = nabla_fail(diag, NABLA_NO_MEMORY, "no thread for a rank");
      break;
    }
  }
  for (uint32_t i = 0; i < begun; i++) {
    pthread_join(workers[i].thread, NULL);
    if (!workers[i].status || (status && status != NABLA_CANCELLED)) continue;
    status = workers[i].status;
    *diag = workers[i].diag;
  }
  return status;
}

static nabla_status run_process(bench_mesh *mesh, const char *text,
                                nabla_diag *diag) {
  const uint32_t size = nabla_comm_size(mesh->comm);
  char all[24];
  (void)snprintf(all, sizeof all, "model=%u", size);
  NABLA_TRY(read_mesh(text ? text : all, mesh, diag));
  if (mesh->ranks != size)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the mesh has %u ranks, mpirun started %u", mesh->ranks,
                      size);
  mesh->first_rank = nabla_comm_rank(mesh->comm);
  return bench_measure_rank(mesh, mesh->first_rank, diag);
}

static nabla_status run_ranks(bench_mesh *mesh, const char *text,
                              nabla_diag *diag) {
  if (getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK")) {
    NABLA_TRY(nabla_comm_mpi(&mesh->comm, diag));
    const nabla_status status = run_process(mesh, text, diag);
    if (status) {
      (void)fprintf(stderr, "nabla-bench: %s\n", diag->what);
      nabla_comm_abort(mesh->comm, 1); /* others would wait for this one */
    }
    return status;
  }
  NABLA_TRY(read_mesh(text ? text : "model=2", mesh, diag));
  NABLA_TRY(nabla_comm_threads(mesh->ranks, &mesh->comm, diag));
  return run_threads(mesh, diag);
}

/* ---- the figures ---- */

/* Of the smallest all_reduce, and what the largest takes longer. */
static double latency_of(const bench_axis *axis) { return axis->seconds[0][0]; }

static double bandwidth_of(const bench_axis *axis) {
  const size_t last = BENCH_COLLECTIVE_SIZES - 1;
  const double time = axis->seconds[0][last] - axis->seconds[0][0];
  const double bytes =
      bench_ring_bytes(0, bench_collective_sizes[last], axis->size);
  return bytes / (time > 1e-9 ? time : 1e-9);
}

static void print_axis(const bench_axis *axis) {
  printf("axis %s, %u ranks: latency %.2f us, bandwidth %.3f GB/s\n%-16s",
         axis->name, axis->size, latency_of(axis) * 1e6,
         bandwidth_of(axis) / 1e9, "  us for bytes");
  for (size_t i = 0; i < BENCH_COLLECTIVE_SIZES; i++)
    printf(" %10llu", (unsigned long long)bench_collective_sizes[i]);
  for (size_t kind = 0; kind < BENCH_COLLECTIVE_KINDS; kind++) {
    printf("\n  %-14s", bench_collective_names[kind]);
    for (size_t i = 0; i < BENCH_COLLECTIVE_SIZES; i++)
      printf(" %10.2f", axis->seconds[kind][i] * 1e6);
  }
  printf("\n");
}

typedef struct file_sink {
  nabla_output *output;
  uint64_t at;
} file_sink;

static nabla_status put(void *self, const void *data, size_t size,
                        nabla_diag *diag) {
  file_sink *sink = self;
  NABLA_TRY(nabla_output_write(sink->output, sink->at, data, size, diag));
  sink->at += size;
  return NABLA_OK;
}

/* docs/schema/nabla-machine-1.json */
static nabla_status write_machine(const bench_mesh *mesh, file_sink *sink,
                                  nabla_diag *diag) {
  nabla_json_out out = {.self = sink, .write = put, .diag = diag, .spaced = 1};
  nabla_json_out_object(&out);
  bench_json_text(&out, "schema", "nabla-machine/1");
  bench_json_number(&out, "operations_per_second", mesh->operations_per_second);
  bench_json_number(&out, "bytes_per_second", mesh->bytes_per_second);
  nabla_json_out_key(&out, "axes");
  nabla_json_out_array(&out);
  for (uint32_t i = 0; i < mesh->axis_count; i++) {
    nabla_json_out_object(&out);
    bench_json_text(&out, "name", mesh->axes[i].name);
    bench_json_number(&out, "bandwidth", bandwidth_of(&mesh->axes[i]));
    bench_json_number(&out, "latency", latency_of(&mesh->axes[i]));
    nabla_json_out_object_end(&out);
  }
  nabla_json_out_array_end(&out);
  nabla_json_out_object_end(&out);
  NABLA_TRY(nabla_json_out_finish(&out));
  return put(sink, "\n", 1, diag);
}

static nabla_status report(const bench_mesh *mesh, const char *path,
                           nabla_diag *diag) {
  for (uint32_t i = 0; i < mesh->axis_count; i++) print_axis(&mesh->axes[i]);
  printf("a rank, while all work: %.2f Gop/s in products, %.2f GB/s copied\n",
         mesh->operations_per_second / 1e9, mesh->bytes_per_second / 1e9);
  if (!path) return NABLA_OK;
  const nabla_output_options options = {.force = 1};
  file_sink sink = {0};
  NABLA_TRY(nabla_output_create(path, &options, &sink.output, diag));
  nabla_status status = write_machine(mesh, &sink, diag);
  if (!status) status = nabla_output_commit(sink.output, diag);
  nabla_output_destroy(sink.output);
  return status;
}

nabla_status bench_run_collectives(const bench_settings *s, nabla_diag *diag) {
  bench_mesh mesh = {.turns = s->turns ? s->turns : 21};
  nabla_status status = run_ranks(&mesh, s->mesh, diag);
  if (!status && !mesh.first_rank) status = report(&mesh, s->machine, diag);
  nabla_comm_destroy(mesh.comm);
  return status;
}
