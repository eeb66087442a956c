/* Exchanges of all kinds between ranks: `exchanges threads N`, or `exchanges
 * mpi [CHUNK]` under mpirun, with messages of at most CHUNK bytes. Prints a
 * number for the results of each rank, which depends on the number of ranks
 * alone. Results are also checked against the definition of each kind. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/runtime/collectives/mpi_internal.h"

typedef struct rank {
  nabla_comm *comm;
  uint32_t number, size;
  uint64_t hash;
  int wrong;
  pthread_t thread;
} rank;

static const struct {
  uint64_t outer, rows, inner;
} sizes[] = {{1, 1, 1}, {1, 7, 3}, {3, 5, 2}, {1, 700, 3}, {5, 40, 80}};

static const nabla_dtype dtypes[] = {
    NABLA_DTYPE_F32, NABLA_DTYPE_F64, NABLA_DTYPE_F16, NABLA_DTYPE_BF16,
    NABLA_DTYPE_I64, NABLA_DTYPE_I32, NABLA_DTYPE_U8};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void hash(rank *r, const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    r->hash = (r->hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
}

/* Bytes of element `index` of a rank's input: floats are finite. */
static void fill(uint8_t *data, uint32_t seed, nabla_dtype dtype,
                 uint64_t bytes) {
  uint64_t state = seed * 1000003u + 12345;
  const uint64_t size = nabla_dtype_bits(dtype) / 8;
  for (uint64_t i = 0; i < bytes; i += size) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float number = (float)(int32_t)(state >> 33) / 16777216.0f - 64.0f;
    const double wide = (double)number * 1.000000001;
    const uint16_t half = dtype == NABLA_DTYPE_F16
                              ? (uint16_t)(0x3000 + (state >> 50))
                              : (uint16_t)(0x3f00 + (state >> 56));
    memcpy(data + i,
           dtype == NABLA_DTYPE_F32   ? (const void *)&number
           : dtype == NABLA_DTYPE_F64 ? (const void *)&wide
           : size == 2                ? (const void *)&half
                                      : (const void *)&state,
           (size_t)size);
  }
}

/* All ranks, or those that are even or odd as the rank is. */
static void set_group(nabla_collective *c, const rank *r, int is_half) {
  const uint32_t step = is_half && r->size % 2 == 0 ? 2 : 1;
  c->rank = r->number;
  c->count = r->size / step;
  c->index = r->number / step;
  for (uint32_t i = 0; i < c->count; i++)
    c->members[i] = i * step + (step == 2 ? r->number % 2 : 0);
}

static void run(rank *r, nabla_collective *c, uint64_t in_bytes,
                uint64_t out_bytes) {
  uint8_t *in = malloc((size_t)in_bytes + 1), *out = malloc((size_t)out_bytes);
  nabla_diag diag = NABLA_DIAG_INIT;
  if (!in || !out) abort();
  fill(in, r->number, c->dtype, in_bytes);
  memset(out, 0xa5, (size_t)out_bytes);
  c->in = in;
  c->out = out;
  if (nabla_comm_run(r->comm, c, &diag)) {
    (void)fprintf(stderr, "rank %u: %s\n", r->number, diag.what);
    exit(1);
  }
  hash(r, out, (size_t)out_bytes);
  free(in);
  free(out);
}

/* Pieces along dimension 0 of [count, rows, inner] are those of the members. */
static void check_gather(rank *r, int is_half) {
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_GATHER,
                        .dtype = NABLA_DTYPE_I32,
                        .outer = 1,
                        .rows = 5000,
                        .inner = 1};
  set_group(&c, r, is_half);
  const uint64_t bytes = c.rows * 4;
  uint8_t *in = malloc((size_t)bytes), *want = malloc((size_t)bytes);
  uint8_t *out = malloc((size_t)(bytes * c.count));
  if (!in || !want || !out) abort();
  fill(in, r->number, c.dtype, bytes);
  c.in = in, c.out = out;
  if (nabla_comm_run(r->comm, &c, NULL)) r->wrong++;
  for (uint32_t m = 0; m < c.count; m++) {
    fill(want, c.members[m], c.dtype, bytes);
    r->wrong += memcmp(want, out + m * bytes, (size_t)bytes) != 0;
  }
  free(in), free(want), free(out);
}

static void run_kinds(rank *r, size_t s, nabla_dtype dtype, int is_half) {
  const uint64_t size = nabla_dtype_bits(dtype) / 8;
  nabla_collective c = {.dtype = dtype,
                        .outer = sizes[s].outer,
                        .rows = sizes[s].rows,
                        .inner = sizes[s].inner,
                        .source = UINT32_MAX};
  set_group(&c, r, is_half);
  const uint64_t bytes = c.outer * c.rows * c.inner * size;
  const int64_t dims[] = {(int64_t)c.outer, (int64_t)(c.rows * c.count),
                          (int64_t)c.inner};
  for (int join = 0; join <= NABLA_JOIN_MIN; join++) {
    c.join = (nabla_join)join;
    c.kind = NABLA_COLLECTIVE_ALL_REDUCE;
    run(r, &c, bytes, bytes);
    c.kind = NABLA_COLLECTIVE_REDUCE_SCATTER;
    run(r, &c, bytes * c.count, bytes);
  }
  c.kind = NABLA_COLLECTIVE_ALL_GATHER;
  run(r, &c, bytes, bytes * c.count);
  c.kind = NABLA_COLLECTIVE_BROADCAST;
  c.source = c.count - 1;
  run(r, &c, bytes, bytes);
  c.kind = NABLA_COLLECTIVE_PERMUTE; /* a ring that is open at its end */
  c.source = c.index ? c.index - 1 : UINT32_MAX;
  run(r, &c, bytes, bytes);
  c.kind = NABLA_COLLECTIVE_ALL_TO_ALL;
  c.dims = dims;
  c.dim_count = 3;
  for (int concat = 0; concat < 3; concat += 2) {
    c.split = 1;
    c.concat = (uint32_t)concat;
    run(r, &c, bytes * c.count, bytes * c.count);
  }
}

static void *run_rank(void *self) {
  rank *r = self;
  for (int is_half = 0; is_half < 2; is_half++) {
    check_gather(r, is_half);
    for (size_t s = 0; s < COUNT(sizes); s++)
      for (size_t d = 0; d < (is_half ? 1 : COUNT(dtypes)); d++)
        run_kinds(r, s, dtypes[d], is_half);
  }
  return NULL;
}

static int print(uint32_t size, const int64_t *hashes, int wrong) {
  for (uint32_t i = 0; i < size; i++)
    printf("rank %u of %u: %016llx\n", i, size, (unsigned long long)hashes[i]);
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

static int run_threads(uint32_t size) {
  static rank ranks[NABLA_COMM_MAX_RANKS];
  int64_t hashes[NABLA_COMM_MAX_RANKS];
  int wrong = 0;
  nabla_comm *comm;
  if (nabla_comm_threads(size, &comm, NULL)) return 1;
  for (uint32_t i = 0; i < size; i++) {
    ranks[i] = (rank){.comm = comm, .number = i, .size = size, .hash = 1};
    if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i])) return 1;
  }
  for (uint32_t i = 0; i < size; i++) {
    pthread_join(ranks[i].thread, NULL);
    hashes[i] = (int64_t)ranks[i].hash;
    wrong += ranks[i].wrong;
  }
  nabla_comm_destroy(comm);
  return print(size, hashes, wrong);
}

static int run_process(const char *chunk) {
  int64_t hashes[NABLA_COMM_MAX_RANKS];
  nabla_diag diag = NABLA_DIAG_INIT;
  rank r = {.hash = 1};
  if (nabla_comm_mpi(&r.comm, &diag)) {
    (void)fprintf(stderr, "%s\n", diag.what);
    return 1;
  }
  if (chunk) ((nabla_mpi_comm *)r.comm)->chunk = strtoull(chunk, NULL, 10);
  r.number = nabla_comm_rank(r.comm);
  r.size = nabla_comm_size(r.comm);
  run_rank(&r);
  const int64_t own[] = {(int64_t)r.hash + 0};
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_GATHER,
                        .dtype = NABLA_DTYPE_I64,
                        .in = own,
                        .out = hashes,
                        .outer = 1,
                        .rows = 1,
                        .inner = 1};
  set_group(&c, &r, 0);
  if (nabla_comm_run(r.comm, &c, &diag)) return 1;
  nabla_comm_destroy(r.comm);
  return r.number ? r.wrong != 0 : print(r.size, hashes, r.wrong);
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "threads"))
    return run_threads((uint32_t)strtoul(argv[2], NULL, 10));
  if (argc >= 2 && !strcmp(argv[1], "mpi"))
    return run_process(argc > 2 ? argv[2] : NULL);
  return 2;
}
