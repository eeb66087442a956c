/* Greedy tokens of a decoder's saved program: `decode threads N PROGRAM MODEL`,
 * or `decode mpi PROGRAM MODEL` under mpirun. Prints the tokens of rank 0, and
 * to standard error the bytes of pieces and states that each rank holds; other
 * tokens on another rank of threads are an error. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nabla/decoder.h"
#include "nabla/executable.h"
#include "nabla/model.h"
#include "nabla/session.h"

enum { IDS = 200, VOCABULARY = 512, MOST = 8 };

typedef struct rank {
  nabla_session *session;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
  int64_t ids[IDS + 1];
  float logits[VOCABULARY];
} rank;

static rank ranks[MOST];

static void *generate(void *self) {
  rank *r = self;
  r->ids[0] = 1;
  for (size_t i = 0; i < IDS && !r->status; i++) {
    r->status = nabla_decoder_run(r->session, &r->ids[i], 1, i, r->logits,
                                  VOCABULARY, &r->diag);
    int64_t best = 0;
    for (int64_t v = 1; v < VOCABULARY; v++)
      if (r->logits[v] > r->logits[best]) best = v;
    r->ids[i + 1] = best;
  }
  return NULL;
}

static int fail(const nabla_diag *diag) {
  (void)fprintf(stderr, "%s\n", diag->what);
  return 1;
}

static int open_rank(nabla_executable *executable, nabla_comm *comm,
                     uint32_t index, uint32_t number) {
  const nabla_session_options options = {.struct_size = sizeof options,
                                         .threads = 1,
                                         .comm = comm,
                                         .rank = number};
  ranks[index].diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_session_create(executable, &options, &ranks[index].session,
                              &ranks[index].diag)
             ? fail(&ranks[index].diag)
             : 0;
}

/* Resident bytes of the process. */
static int64_t resident(void) {
  long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  if (fscanf(file, "%*d %lld", &pages) != 1) pages = 0;
  (void)fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static int64_t resident_before;

static void print(const rank *r, uint32_t number) {
  nabla_session_usage usage = {.struct_size = sizeof usage};
  if (!number) {
    for (size_t i = 0; i <= IDS; i++) printf("%d ", (int)r->ids[i]);
    printf("\n");
  }
  if (nabla_session_memory(r->session, &usage, NULL)) return;
  (void)fprintf(stderr,
                "rank %u: pieces %llu states %llu weights %llu other %llu "
                "resident %lld\n",
                number, (unsigned long long)usage.piece_bytes,
                (unsigned long long)usage.state_bytes,
                (unsigned long long)usage.weight_bytes,
                (unsigned long long)(usage.run_bytes + usage.other_bytes),
                (long long)(resident() - resident_before));
}

static int run_threads(nabla_executable *executable, uint32_t count) {
  nabla_comm *comm = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (count > 1 && nabla_comm_threads(count, &comm, &diag)) return fail(&diag);
  resident_before = resident();
  for (uint32_t i = 0; i < count; i++)
    if (open_rank(executable, comm, i, i)) return 1;
  for (uint32_t i = 0; i < count; i++)
    if (pthread_create(&ranks[i].thread, NULL, generate, &ranks[i])) return 1;
  for (uint32_t i = 0; i < count; i++) pthread_join(ranks[i].thread, NULL);
  int wrong = 0;
  for (uint32_t i = 0; i < count; i++) {
    wrong |= ranks[i].status ? fail(&ranks[i].diag) : 0;
    wrong |= memcmp(ranks[i].ids, ranks[0].ids, sizeof ranks->ids) != 0;
    print(&ranks[i], i);
    nabla_session_close(ranks[i].session);
  }
  nabla_comm_destroy(comm);
  return wrong;
}

static int run_process(nabla_executable *executable) {
  nabla_comm *comm;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (nabla_comm_mpi(&comm, &diag)) return fail(&diag);
  const uint32_t number = nabla_comm_rank(comm);
  resident_before = resident();
  if (open_rank(executable, comm, 0, number)) return 1;
  generate(&ranks[0]);
  if (ranks[0].status) {
    (void)fail(&ranks[0].diag);
    nabla_comm_abort(comm, 1);
  }
  print(&ranks[0], number);
  nabla_session_close(ranks[0].session);
  nabla_comm_destroy(comm);
  return 0;
}

int main(int argc, char **argv) {
  const int is_process = argc == 4 && !strcmp(argv[1], "mpi");
  if (!is_process && argc != 5) return 2;
  const uint32_t count = is_process ? 1 : (uint32_t)strtoul(argv[2], NULL, 10);
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_executable *executable;
  nabla_model *model;
  if (!count || count > MOST) return 2;
  if (nabla_executable_open(argv[argc - 2], NULL, &executable, &diag) ||
      nabla_model_open(argv[argc - 1], NULL, &model, &diag) ||
      nabla_executable_bind_model(executable, model, NULL, NULL, &diag))
    return fail(&diag);
  const int wrong =
      is_process ? run_process(executable) : run_threads(executable, count);
  nabla_executable_close(executable);
  nabla_model_close(model);
  return wrong;
}
