/* How fast a model of floats goes through a quantize, from a warm page cache to
 * a new file, and how much memory that takes.
 *
 *   quantize [--threads=N] [--runs=N] [--megabytes=N] [--row=NAME] [--json]
 *            FOLDER [MODEL]
 *
 * Without MODEL a file of f32 weights is made in FOLDER, and removed at the
 * end; outputs go there too. Every run is a process of its own, so that its
 * peak of memory is its own; the rows take turns, and a first round that warms
 * the page cache does not count. Rates are bytes of input, medians. */
#include "nabla/quantize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nabla/safetensors.h"

enum { MAX_RUNS = 99, ROWS = 4096, COLUMNS = 4096 };

/* Values of the made model; they repeat. */
#define PIECE ((size_t)1 << 22)

static const struct row {
  const char *name, *encoding;
  nabla_settings settings;
} rows[] = {
    {"nf4", "nf4", {.block = 64}},
    {"nf4-dynamic8",
     "nf4",
     {.block = 64, .has_scale = 1, .scale = NABLA_SCALE_DYNAMIC8}},
    {"nf4-search", "nf4", {.block = 64, .search = 1}},
    {"int8", "int8", {.block = 0}},
};

enum { ROW_COUNT = sizeof rows / sizeof *rows };

/* One run, as a child tells it. */
typedef struct result {
  int failed;
  double before_sync, with_sync; /* GB/s */
  double opened_mib;             /* resident once the header has been read */
  double peak_mib;
} result;

typedef struct options {
  uint32_t threads;
  unsigned runs, megabytes;
  int json;
  const char *only, *folder, *model;
} options;

static int complain(const char *what, const nabla_diag *diag) {
  char text[1024];
  nabla_diag_format(diag, text, sizeof text);
  fprintf(stderr, "quantize: %s: %s\n", what, text);
  return 1;
}

/* ---- the model ---------------------------------------------------------- */

static float normal(uint64_t *seed) {
  double sum = -6; /* of twelve uniform numbers: mean 0, deviation 1 */
  for (int i = 0; i < 12; i++) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    sum += (double)(*seed >> 40) * 0x1p-24;
  }
  return (float)(sum * 0.05);
}

static nabla_status write_tensors(nabla_safetensors_writer *writer,
                                  const char *path, const float *values,
                                  size_t tensors, nabla_diag *diag) {
  const uint64_t shape[2] = {ROWS, COLUMNS}, size = (uint64_t)ROWS * COLUMNS;
  for (size_t i = 0; i < tensors; i++) {
    char name[64];
    size_t id; /* they are numbered from 0 */
    const int length = snprintf(name, sizeof name, "layers.%zu.weight", i);
    NABLA_TRY(nabla_safetensors_writer_add(
        writer, name, (size_t)length, NABLA_DTYPE_F32, shape, 2, &id, diag));
  }
  NABLA_TRY(nabla_safetensors_writer_begin(writer, path, 1, diag));
  for (size_t i = 0; i < tensors; i++)
    for (uint64_t at = 0; at < size; at += PIECE)
      NABLA_TRY(nabla_safetensors_writer_write(writer, i, at * sizeof *values,
                                               values, PIECE * sizeof *values,
                                               diag));
  return nabla_safetensors_writer_commit(writer, diag);
}

static int make_model(const char *path, unsigned megabytes) {
  const size_t each = (size_t)ROWS * COLUMNS * sizeof(float);
  const size_t tensors = ((size_t)megabytes * 1000000 + each - 1) / each;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_safetensors_writer *writer = NULL;
  float *values = malloc(PIECE * sizeof *values);
  if (!values) return 1;
  uint64_t seed = 1;
  for (size_t i = 0; i < PIECE; i++) values[i] = normal(&seed);
  nabla_status status =
      nabla_safetensors_writer_create(NULL, NULL, &writer, &diag);
  if (!status) status = write_tensors(writer, path, values, tensors, &diag);
  nabla_safetensors_writer_destroy(writer);
  free(values);
  return status ? complain(path, &diag) : 0;
}

/* ---- one run ------------------------------------------------------------ */

static double resident_mib(void) {
  unsigned long total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  if (fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  fclose(file);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static nabla_status quantize(const options *o, const char *model,
                             const char *output, const struct row *row,
                             result *out, nabla_diag *diag) {
  const nabla_quantize_options how = {
      .struct_size = sizeof how,
      .encoding = nabla_encoding_find(row->encoding),
      .settings = row->settings};
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = output, .force = 1};
  nabla_environment environment = {0};
  nabla_checkpoint *checkpoint = NULL;
  nabla_plan *plan = NULL;
  nabla_write_summary summary = {0};
  nabla_status status =
      nabla_pool_create(o->threads, NULL, &environment.pool, diag);
  if (!status)
    status = nabla_checkpoint_open(model, &environment, &checkpoint, diag);
  out->opened_mib = resident_mib();
  if (!status)
    status = nabla_plan_create(checkpoint, &how, &environment, &plan, diag);
  if (!status)
    status = nabla_plan_write(plan, &where, &environment, &summary, diag);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
  nabla_pool_destroy(environment.pool);
  if (status) return status;
  const double gb = (double)summary.bytes_in * 1e-9;
  out->before_sync = gb / (summary.seconds - summary.sync_seconds);
  out->with_sync = gb / summary.seconds;
  return NABLA_OK;
}

/* In a child; gives what it wrote to the pipe. */
static result run_once(const options *o, const char *model, const char *output,
                       const struct row *row) {
  result got = {.failed = 1};
  struct rusage usage;
  int ends[2], status;
  if (pipe(ends)) return got;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    nabla_diag diag = NABLA_DIAG_INIT;
    result mine = {0};
    if (quantize(o, model, output, row, &mine, &diag))
      mine.failed = complain(row->name, &diag);
    _exit(write(ends[1], &mine, sizeof mine) != (ssize_t)sizeof mine);
  }
  close(ends[1]);
  if (child > 0) {
    if (read(ends[0], &got, sizeof got) != (ssize_t)sizeof got) got.failed = 1;
    if (wait4(child, &status, 0, &usage) != child || status) got.failed = 1;
    got.peak_mib = (double)usage.ru_maxrss / 1024;
  }
  close(ends[0]);
  unlink(output);
  return got;
}

/* ---- all of them -------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct series {
  double before_sync[MAX_RUNS], with_sync[MAX_RUNS], above[MAX_RUNS],
      peak[MAX_RUNS];
} series;

static double median(double *values, unsigned count) {
  qsort(values, count, sizeof *values, ascending);
  return values[count / 2];
}

static void report(const options *o, const struct row *row, series *s,
                   int is_first) {
  const unsigned n = o->runs;
  const double before = median(s->before_sync, n),
               with = median(s->with_sync, n);
  qsort(s->above, n, sizeof *s->above, ascending);
  qsort(s->peak, n, sizeof *s->peak, ascending);
  if (o->json)
    printf(
        "%s{\"row\":\"%s\",\"gb_per_s\":%.3f,\"gb_per_s_min\":%.3f,"
        "\"gb_per_s_max\":%.3f,\"gb_per_s_with_sync\":%.3f,"
        "\"peak_mib\":%.2f,\"peak_mib_above_header\":%.2f}",
        is_first ? "" : ",", row->name, before, s->before_sync[0],
        s->before_sync[n - 1], with, s->peak[n - 1], s->above[n - 1]);
  else
    printf("%-14s %6.2f (%5.2f to %5.2f) %10.2f %10.1f %10.1f\n", row->name,
           before, s->before_sync[0], s->before_sync[n - 1], with,
           s->peak[n - 1], s->above[n - 1]);
}

static int is_wanted(const options *o, const struct row *row) {
  return !o->only || !strcmp(o->only, row->name);
}

static int measure(const options *o, const char *model, const char *output) {
  static series all[ROW_COUNT];
  for (unsigned run = 0; run <= o->runs; run++)
    for (size_t i = 0; i < ROW_COUNT; i++) {
      if (!is_wanted(o, &rows[i])) continue;
      const result r = run_once(o, model, output, &rows[i]);
      if (r.failed) return 1;
      if (run == 0) continue;
      all[i].before_sync[run - 1] = r.before_sync;
      all[i].with_sync[run - 1] = r.with_sync;
      all[i].peak[run - 1] = r.peak_mib;
      all[i].above[run - 1] = r.peak_mib - r.opened_mib;
    }
  if (o->json)
    printf("{\"threads\":%u,\"runs\":%u,\"rows\":[", o->threads, o->runs);
  else
    printf("%-14s %6s (%5s to %5s) %10s %10s %10s\n", "GB/s of input", "median",
           "least", "most", "with sync", "peak MiB", "of that");
  int is_first = 1;
  for (size_t i = 0; i < ROW_COUNT; i++) {
    if (!is_wanted(o, &rows[i])) continue;
    report(o, &rows[i], &all[i], is_first);
    is_first = 0;
  }
  if (o->json)
    printf("]}\n");
  else
    printf("(of that: above what was resident once the header was read)\n");
  return 0;
}

/* "--name=N" within 1 .. most. */
static int number(const char *argument, const char *name, unsigned most,
                  unsigned *out) {
  const size_t length = strlen(name);
  if (strncmp(argument, name, length) != 0) return 0;
  char *end;
  const unsigned long value = strtoul(argument + length, &end, 10);
  if (!argument[length] || *end || value < 1 || value > most) return 0;
  *out = (unsigned)value;
  return 1;
}

static int parse(int argc, char **argv, options *out) {
  *out = (options){.threads = 2, .runs = 5, .megabytes = 2200};
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
    if (!strcmp(a, "--json"))
      out->json = 1;
    else if (!strncmp(a, "--row=", 6))
      out->only = a + 6;
    else if (number(a, "--threads=", NABLA_POOL_MAX_THREADS, &out->threads) ||
             number(a, "--runs=", MAX_RUNS, &out->runs) ||
             number(a, "--megabytes=", 1000000, &out->megabytes))
      continue;
    else if (*a == '-' || out->model)
      return 0;
    else if (out->folder)
      out->model = a;
    else
      out->folder = a;
  }
  int known = !out->only;
  for (size_t i = 0; i < ROW_COUNT && !known; i++)
    known = is_wanted(out, &rows[i]);
  return known && out->folder;
}

int main(int argc, char **argv) {
  options o;
  char made[4096], output[4096];
  if (!parse(argc, argv, &o)) {
    fprintf(stderr,
            "usage: quantize [--threads=N] [--runs=N] [--megabytes=N] "
            "[--row=NAME]\n                [--json] FOLDER [MODEL]\n"
            "rows:");
    for (size_t i = 0; i < ROW_COUNT; i++) fprintf(stderr, " %s", rows[i].name);
    fprintf(stderr, "\n");
    return 2;
  }
  const int a = snprintf(made, sizeof made, "%s/bench-%ld.safetensors",
                         o.folder, (long)getpid());
  const int b = snprintf(output, sizeof output, "%s/bench-%ld-out.safetensors",
                         o.folder, (long)getpid());
  if (a < 0 || b < 0 || (size_t)a >= sizeof made || (size_t)b >= sizeof output)
    return 2;
  int failed = o.model ? 0 : make_model(made, o.megabytes);
  if (!failed) failed = measure(&o, o.model ? o.model : made, output);
  if (!o.model) unlink(made);
  return failed;
}
