/* many.c under mpirun: COUNT exchanges `all_reduce` of 8 bytes to 2 KiB beside
 * the library's own MPI_Allreduce, in turns. Prints the medians of both in
 * microseconds, and the growth of this process' memory in KiB. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/runtime/collectives/mpi_internal.h"

enum { SIZES = 5, TURN = 100, MOST = 200 };

static const uint64_t sizes[SIZES] = {2, 16, 64, 256, 512}; /* of float */

/* The bare call, in the types of either ABI. */
static int (*of_open)(const void *, void *, int, void *, void *, void *);
static int (*of_mpich)(const void *, void *, int, int, int, int);
static void *type, *sum, *world;

static int find_bare(void) {
  void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD);
  if (library) {
    type = dlsym(library, "ompi_mpi_float");
    sum = dlsym(library, "ompi_mpi_op_sum");
    world = dlsym(library, "ompi_mpi_comm_world");
    void *const found = dlsym(library, "MPI_Allreduce");
    memcpy(&of_open, &found, sizeof found);
    return found && type && sum && world;
  }
  library = dlopen("libmpich.so.12", RTLD_NOW | RTLD_NOLOAD);
  void *const found = library ? dlsym(library, "MPI_Allreduce") : NULL;
  memcpy(&of_mpich, &found, sizeof found);
  return found != NULL;
}

static void run_bare(const float *in, float *out, uint64_t count) {
  if (of_open)
    (void)of_open(in, out, (int)count, type, sum, world);
  else
    (void)of_mpich(in, out, (int)count, 0x4c00040a, 0x58000003, 0x44000000);
}

static int run_own(nabla_comm *comm, const float *in, float *out,
                   uint64_t count) {
  nabla_collective c = {.kind = NABLA_COLLECTIVE_ALL_REDUCE,
                        .dtype = NABLA_DTYPE_F32,
                        .rank = nabla_comm_rank(comm),
                        .index = nabla_comm_rank(comm),
                        .count = nabla_comm_size(comm),
                        .in = in,
                        .out = out,
                        .outer = 1,
                        .rows = count,
                        .inner = 1};
  for (uint32_t i = 0; i < c.count; i++) c.members[i] = i;
  return nabla_comm_run(comm, &c, NULL) != NABLA_OK;
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static long resident_kib(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  if (file) (void)fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* TURN calls of each, in turns; medians over the turns. */
static int measure(nabla_comm *comm, uint64_t size, int turns, double *out_own,
                   double *out_bare) {
  static double own[MOST], bare[MOST];
  static float in[512], out[512];
  for (uint64_t i = 0; i < size; i++) in[i] = (float)i;
  for (int t = 0; t < turns; t++) {
    double start = now_us();
    for (int i = 0; i < TURN; i++)
      if (run_own(comm, in, out, size)) return 1;
    own[t] = (now_us() - start) / TURN;
    start = now_us();
    for (int i = 0; out_bare && i < TURN; i++) run_bare(in, out, size);
    bare[t] = (now_us() - start) / TURN;
  }
  if (out[size - 1] != in[size - 1] * (float)nabla_comm_size(comm)) return 1;
  qsort(own, (size_t)turns, sizeof *own, by_size);
  qsort(bare, (size_t)turns, sizeof *bare, by_size);
  *out_own = own[turns / 2];
  if (out_bare) *out_bare = bare[turns / 2];
  return 0;
}

int main(int argc, char **argv) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_comm *comm;
  const long count = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
  const int has_bare = argc > 2;
  const int turns = (int)(count / SIZES / TURN);
  if (turns < 1 || turns > MOST || nabla_comm_mpi(&comm, &diag)) return 2;
  if (!find_bare()) return 2;
  long before = 0;
  for (int round = 0; round < 2; round++) /* the first warms up */
    for (int s = 0; s < SIZES; s++) {
      double own, bare = 0;
      const int n = round ? turns : turns < 10 ? turns : 10;
      if (measure(comm, sizes[s], n, &own, has_bare ? &bare : NULL)) return 1;
      if (round && !nabla_comm_rank(comm))
        printf("bytes %llu own %.3f bare %.3f\n",
               (unsigned long long)sizes[s] * 4, own, bare);
      if (!round && s == SIZES - 1) before = resident_kib();
    }
  if (!nabla_comm_rank(comm))
    printf("growth %ld KiB\n", resident_kib() - before);
  nabla_comm_destroy(comm);
  return 0;
}
