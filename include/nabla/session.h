/* Sessions: an executable together with all that it keeps from one run to the
 * next: its states (a key/value cache, weights in training) and the memory of a
 * run. Part of libnabla-runtime. */
#ifndef NABLA_SESSION_H
#define NABLA_SESSION_H

#include "nabla/comm.h"
#include "nabla/executable.h"
#include "nabla/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A session has its own states, and memory for one run at a time. Any number
 * of sessions of an executable may run at the same time. */
typedef struct nabla_session nabla_session;

/* When the ranks of a communicator compare what they run: a hash of the
 * program, of its mesh, of the weights (names, types, headers of files, first
 * bytes), and of the function and its inputs, which all ranks give whole. A run
 * of ranks that differ fails with NABLA_INVALID_ARGUMENT on all of them, and
 * the message says in what, and names a rank. All ranks have the same setting.
 */
typedef enum nabla_session_check {
  NABLA_CHECK_START, /* before the first run of the session */
  NABLA_CHECK_EVERY, /* before every run */
  NABLA_CHECK_NEVER,
} nabla_session_check;

/* Options of a session. Zero in all members but struct_size selects the
 * executable's pool. */
typedef struct nabla_session_options {
  size_t struct_size; /* sizeof(nabla_session_options) */
  /* The pool that computes the session's runs, which must outlive the session;
   * NULL: `threads` decides. */
  nabla_pool *pool;
  /* 0: the executable's pool, which serves one run after the other. Otherwise
   * the number of threads, the caller included, of a pool that belongs to the
   * session. Must be 0 if `pool` is set. */
  uint32_t threads;
  /* Of a program for several ranks, which needs both: the session runs as
   * `rank` of `comm`, which must outlive it. NULL and 0 for other programs. */
  nabla_comm *comm;
  uint32_t rank;
  nabla_session_check check; /* of a session with a communicator */
} nabla_session_options;

/* Creates a session, whose states are zero. While an executable has a session,
 * and once compiled code has run in one, no more weights can be bound to it.
 * @param executable  may be closed before its sessions: it is freed when the
 *                    last of them is closed. Its environment and the weights
 *                    that are bound to it must outlive the session
 * @param options     NULL for the executable's pool
 * @param out         the session; the caller closes it
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  both a pool and threads, too many threads, a
 *                                 struct_size of another version
 *         NABLA_NO_MEMORY
 * Thread-safe, except that no thread may bind a weight to `executable` at the
 * same time. */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_create(
    nabla_executable *executable, const nabla_session_options *options,
    nabla_session **out, nabla_diag *diag);

/* Frees a session with its states. No run may be in progress. NULL is allowed.
 */
NABLA_API void nabla_session_close(nabla_session *session);

/* Runs a function, which reads and writes its states in the session. Inputs and
 * outputs are those of nabla_executable_run; states are neither. Functions
 * share the states that have the same name. If a run fails before the compiled
 * code begins, states are unchanged. If the code of a function with states
 * fails, they may be half written: the session then refuses to run functions
 * with states until all states are set to zero or copied
 * (nabla_session_state_zero and _copy, name NULL).
 * @return as nabla_executable_run, and
 *         NABLA_INVALID_ARGUMENT  a run is in progress in this session, or
 *                                 states may be half written
 * One thread at a time. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_session_run(nabla_session *session, const char *function,
                  const nabla_dense *inputs, size_t input_count,
                  nabla_dense *outputs, size_t output_count, nabla_diag *diag);

/* ---- packed arrays, and results that outlive the executable ------------- */

/* An input of nabla_session_call: a weight, or a dense array. */
typedef struct nabla_session_input {
  nabla_dense dense;               /* read if `weight` is NULL              */
  const nabla_weight_desc *weight; /* of a packed argument, or a dense one  */
  /* 1: `dense` is the piece that the session's rank has of an argument that is
   * divided among ranks, and is read where it lies; 0: the whole. */
  int is_piece;
} nabla_session_input;

/* An output of nabla_session_call. */
typedef struct nabla_session_output {
  nabla_dense dense;         /* of a dense result                           */
  nabla_weight_desc *weight; /* of a packed result; NULL of a dense one     */
} nabla_session_output;

/* The arrays of one call. */
typedef struct nabla_session_arrays {
  size_t struct_size; /* sizeof(nabla_session_arrays) */
  /* One per argument that is neither a state nor bound, in order. */
  const nabla_session_input *inputs;
  size_t input_count;
  /* One per result; a packed result, whose port has `packed`, is one. */
  nabla_session_output *outputs;
  size_t output_count;
  /* Of results for which the caller gives no memory; NULL: malloc. */
  const nabla_allocator *allocator;
} nabla_session_arrays;

/* Runs a function as nabla_session_run does, but takes and gives packed arrays
 * too, as nabla_weight_desc. Results for which the caller gives no memory are
 * allocated by the caller's allocator, not the executable's. Where all arrays
 * are dense, nabla_session_run needs less code.
 *
 * Inputs are borrowed, and only those of donated arguments are written
 * (nabla_executable_run); a donated argument takes no weight. A weight is
 * checked as by nabla_executable_bind, and used for this call alone.
 *
 * The memory of a dense output is that of nabla_executable_run. A packed output
 * is a description: with `component_count` 0 its components are allocated; else
 * it has layout, shape and components of the result, whose data are written.
 * On success the description is complete, but for its name, which is left. What
 * was allocated is freed by nabla_result_free, component by component, also
 * after the session and the executable were closed.
 * @return as nabla_session_run, and
 *         NABLA_INVALID_ARGUMENT  a weight that does not fit: the message names
 *                                 both sides; a struct_size of another version
 * One thread at a time. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_session_call(nabla_session *session, const char *function,
                   const nabla_session_arrays *arrays, nabla_diag *diag);

/* Allocates `bytes` (0 is allowed) for an output, at a multiple of 64 bytes, so
 * that a result is computed there without a copy. @return NULL when there is no
 * memory. Thread-safe, as the allocator is; NULL is malloc. */
NABLA_API void *nabla_result_allocate(const nabla_allocator *allocator,
                                      uint64_t bytes);

/* Frees memory of nabla_result_allocate, or that nabla_session_call allocated
 * for an output with the same allocator. NULL memory is allowed. */
NABLA_API void nabla_result_free(const nabla_allocator *allocator,
                                 void *memory);

/* ---- states ------------------------------------------------------------- */

/* The number of states, and the state `index`, in the order in which functions
 * first name them. A port has the state's `state_name`, dtype and shape, and is
 * valid as long as the session; NULL if there is no such index. Thread-safe. */
NABLA_API size_t nabla_session_state_count(const nabla_session *session);
NABLA_API const nabla_port *nabla_session_state(const nabla_session *session,
                                                size_t index);

/* Copies `value` to a state of the same dtype and shape.
 * @return NABLA_INVALID_ARGUMENT  no such state, another dtype or shape, or a
 *                                 run is in progress */
NABLA_API NABLA_MUST_USE nabla_status
nabla_session_state_set(nabla_session *session, const char *name,
                        const nabla_dense *value, nabla_diag *diag);

/* Copies a state to `out`. As for an output of nabla_executable_run, the array
 * is allocated if `data` is NULL, and freed by nabla_dense_release.
 * @return as nabla_session_state_set, or NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status
nabla_session_state_get(nabla_session *session, const char *name,
                        nabla_dense *out, nabla_diag *diag);

/* Sets a state to zero, or all states if `name` is NULL.
 * @return as nabla_session_state_set */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_state_zero(
    nabla_session *session, const char *name, nabla_diag *diag);

/* Copies the state `name` of `from` to the state of `to` with the same name,
 * dtype and shape. If `name` is NULL, copies a state of `from` to every state
 * of `to`. On failure no state changes. The sessions may be of different
 * executables.
 * @return as nabla_session_state_set; NABLA_INVALID_ARGUMENT also if the states
 *         of `from` may be half written */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_state_copy(
    nabla_session *to, nabla_session *from, const char *name, nabla_diag *diag);

/* An operation, and its part of the peak of a session's arrays. */
typedef struct nabla_session_holder {
  const char *what; /* "nabla.dot_general at line 12", or the function of the
                       compiler's whose work space it is; lives as long as the
                       executable */
  uint64_t bytes;   /* of its arrays at the peak */
  uint64_t arrays;  /* their number */
} nabla_session_holder;

/* Memory of a session. */
typedef struct nabla_session_usage {
  size_t struct_size;   /* sizeof(nabla_session_usage), set by the caller */
  uint64_t state_bytes; /* of the states                                  */
  uint64_t run_bytes;   /* of temporary arrays, kept for the next run     */
  uint64_t other_bytes; /* of the session itself                          */
  /* The most bytes of arrays that a run of the session held at one time,
   * results included, and the operations of these arrays, the largest first.
   * `holders` is valid until the next run. Found in runs of which a profile is
   * taken (nabla/profile.h), of code that was compiled with `profile`; else 0.
   * Temporary arrays lie in `run_bytes`, which are more: sizes are rounded up,
   * and the memory of other functions is kept. */
  uint64_t peak_bytes;
  size_t holder_count;
  const nabla_session_holder *holders;
  uint64_t piece_bytes;  /* of pieces of weights that were copied: those of a
                            rank that do not lie in a row              */
  uint64_t weight_bytes; /* of the weights that runs read, of a rank's pieces
                            where they are divided; mapped files of which only
                            these pages are read, and copies, included  */
} nabla_session_usage;

/* Stores in `out` how much memory a session holds between runs, without the
 * threads of its own pool, and what it is for at the peak.
 * @return NABLA_INVALID_ARGUMENT  a struct_size of another version, or a run is
 *                                 in progress
 *         NABLA_NO_MEMORY         for the peak, which is not known then */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_memory(
    nabla_session *session, nabla_session_usage *out, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
