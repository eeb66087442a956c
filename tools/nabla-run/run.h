/* What the files of nabla-run share. */
#ifndef NABLA_TOOLS_RUN_H
#define NABLA_TOOLS_RUN_H

#include "lib/base/json/json.h"
#include "nabla/compiler.h"
#include "nabla/session.h"
#include "tools/common/compile_options.h"
#include "tools/common/tool.h"

#define RUN_MAX_PORTS 1024 /* arguments and results of a function */

/* Exit code of a rank that ends since another failed, or did not come. */
#define RUN_EXIT_RANKS 7

/* "NAME=REST" of the command line, cut in place. */
typedef struct run_pair {
  const char *name, *rest;
} run_pair;

typedef struct run_settings {
  const char *program, *entry, *cache;
  const char *bind_all; /* a checkpoint, or NULL */
  run_pair binds[RUN_MAX_PORTS], inputs[RUN_MAX_PORTS];
  run_pair states[RUN_MAX_PORTS], kept_states[RUN_MAX_PORTS];
  const char *outputs[RUN_MAX_PORTS], *expects[RUN_MAX_PORTS];
  size_t bind_count, input_count, output_count, expect_count;
  size_t state_count, kept_state_count;
  double tolerance; /* relative RMSE that --expect allows */
  uint64_t threads, repeat, steps, ranks; /* 0: not given */
  int time, json, batch, again;
  nabla_session_check check;
  tool_compile compile;
} run_settings;

/* A checkpoint that weights were bound from. */
typedef struct run_model {
  const char *path;
  nabla_model *model;
} run_model;

/* How far a result is from what was expected. */
typedef struct run_difference {
  double most;     /* largest absolute difference */
  double relative; /* RMSE over the RMS of what was expected */
} run_difference;

/* A rank of --ranks that is not 0. */
typedef struct run_rank run_rank;

typedef struct run {
  const run_settings *settings;
  char **words; /* the command line as it came: hand_over.c */
  tool *tool;
  nabla_environment environment;
  nabla_compiler *compiler;
  nabla_compile_report compiled; /* of a program that was compiled */
  nabla_executable *executable;
  int is_saved;   /* the program is a saved one */
  double open_ms; /* that it took to open it    */
  const nabla_signature *function;
  run_model models[RUN_MAX_PORTS + 1];
  size_t model_count;
  nabla_model *all;                  /* of --bind-all, one of those */
  size_t unused_named;               /* tensors that it named       */
  nabla_dense inputs[RUN_MAX_PORTS]; /* of arguments that are not bound */
  size_t input_count;
  /* 1: the input has one dimension more than its argument, a part per step */
  uint8_t is_stacked[RUN_MAX_PORTS];
  uint8_t is_donated[RUN_MAX_PORTS]; /* 1: each run gets a copy of the input */
  void *given[RUN_MAX_PORTS];        /* the copy; NULL before the first run  */
  nabla_session *session;            /* NULL: none is needed; of rank 0 */
  nabla_comm *comm;                  /* of --ranks, or of mpirun */
  uint32_t rank;                     /* of this process: 0 prints and writes */
  char name[64];                     /* of the tool, with the rank */
  run_rank *others;                  /* the ranks behind 0 */
  uint64_t begun;                    /* of them: they have threads */
  nabla_dense states[RUN_MAX_PORTS]; /* values to begin with */
  nabla_dense results[RUN_MAX_PORTS];
  double run_ms;                  /* of all steps */
  double read_limit, flops_limit; /* a second, with --profile */
  run_difference differences[RUN_MAX_PORTS];
  int differs;           /* beyond the tolerance: exit with 1 */
  uint64_t bound_bytes;  /* of weights, as stored */
  uint64_t copied_bytes; /* of weights that lay unaligned in their file */
  int program_failed;    /* it is the program that is wrong: exit with 1 */
} run;

/* hand_over.c: program text is compiled by another program, with the same
 * command line. Copies the command line, which parsing cuts up. */
NABLA_MUST_USE nabla_status run_copy_words(run *r, int argc, char **argv,
                                           nabla_diag *diag);
/* Becomes that program. @return NABLA_OK where this one compiles itself;
 * NABLA_IO, NABLA_UNSUPPORTED: it cannot be started */
NABLA_MUST_USE nabla_status run_hand_over(const run *r, nabla_diag *diag);

/* A saved program, by its name or by its first bytes. */
int run_is_saved(const char *path);
/* Compiles the program, or opens it. */
NABLA_MUST_USE nabla_status run_open_program(run *r, nabla_diag *diag);
void run_release_program(run *r);

/* A clock that never goes back. */
double run_milliseconds(void);

/* Binds weights and reads inputs, as the settings say. */
NABLA_MUST_USE nabla_status run_take_arguments(run *r, nabla_diag *diag);
void run_release(run *r);

/* steps.c: makes the session of a function that has states, with the values of
 * --state, or that is profiled or run again. Reads no files twice. */
NABLA_MUST_USE nabla_status run_open_session(run *r, nabla_diag *diag);
/* Sets an input for --steps to be a stack of one part for each, where it has
 * one dimension more than its argument. */
NABLA_MUST_USE nabla_status run_take_stack(run *r, const nabla_port *port,
                                           size_t input, nabla_diag *diag);
/* Sets states to their first values, and runs all steps. */
NABLA_MUST_USE nabla_status run_steps(run *r, nabla_diag *diag);
/* The same, into the results that r has: those of an earlier run. */
NABLA_MUST_USE nabla_status run_steps_into(run *r, nabla_diag *diag);
/* Whether results may have another size in the next step. */
int run_gives_any_size(const nabla_signature *function);
size_t run_bytes_of(const nabla_dense *array);
/* Writes the states of --keep-state. */
NABLA_MUST_USE nabla_status run_keep_states(run *r, nabla_diag *diag);
void run_close_session(run *r);

/* again.c: the allocator of --again, and its other runs. */
const nabla_allocator *run_counting_allocator(void);
NABLA_MUST_USE nabla_status run_again(run *r, nabla_diag *diag);

/* Refuses outputs that are inputs, or named twice. */
NABLA_MUST_USE nabla_status run_check_outputs(const run *r, nabla_diag *diag);

/* --input NAME=random:SHAPE: numbers even in [-1, 1), the same each time for
 * one `seed`, the place of the argument. */
int run_is_random(const char *text);
NABLA_MUST_USE nabla_status run_make_random(
    const char *text, const nabla_port *port, uint64_t seed,
    const nabla_environment *environment, nabla_dense *out, nabla_diag *diag);

/* Compares results with the files of --expect. */
NABLA_MUST_USE nabla_status run_compare(run *r, nabla_diag *diag);
void run_print_differences(const run *r);

/* Times and results for people; JSON, with the error when there is one. */
void run_print_times(const run *r);
NABLA_MUST_USE nabla_status run_print_json(const run *r, nabla_status status,
                                           int exit_code,
                                           const nabla_diag *why);

/* --profile: measures the limits of this machine and begins a profile; prints
 * it, or adds the member "profile". */
int run_is_profiled(const run *r);
NABLA_MUST_USE nabla_status run_profile_begin(run *r, nabla_diag *diag);
void run_print_profile(const run *r);
void run_json_profile(const run *r, nabla_json_out *out);

/* steps.c: sets the states of a session to their first values; runs all steps
 * in a session (or without one, NULL). */
NABLA_MUST_USE nabla_status run_reset(run *r, nabla_session *session,
                                      nabla_diag *diag);
NABLA_MUST_USE nabla_status run_session_steps(run *r, nabla_session *session,
                                              nabla_dense *results,
                                              nabla_diag *diag);

/* guard.c: makes this process the child of one that waits for it, so that one
 * that leaves before its end is seen whatever its exit code. The child returns,
 * and leaves through run_leave_guard, which gives the code back. */
NABLA_MUST_USE nabla_status run_begin_guard(nabla_diag *diag);
int run_leave_guard(int exit_code);

/* ranks.c: whether mpirun has started this process as a rank, which it becomes;
 * the pool, of its share of the CPUs; the end of all processes, where they have
 * begun. */
int run_is_process(void);
NABLA_MUST_USE nabla_status run_open_process(run *r, nabla_diag *diag);
NABLA_MUST_USE nabla_status run_make_pool(run *r, nabla_diag *diag);
void run_abort_ranks(const run *r, int exit_code);

/* ranks.c: refuses a program that is for another number of ranks. */
NABLA_MUST_USE nabla_status run_check_ranks(const run *r, nabla_diag *diag);

/* ranks.c: sessions of --ranks; threads that run all steps of the ranks behind
 * 0, and their end, with the reason of the rank that failed first. */
NABLA_MUST_USE nabla_status run_open_ranks(run *r, nabla_diag *diag);
void run_close_ranks(run *r);
NABLA_MUST_USE nabla_status run_begin_ranks(run *r, nabla_diag *diag);
NABLA_MUST_USE nabla_status run_end_ranks(run *r, nabla_status status,
                                          nabla_diag *diag);

#endif
