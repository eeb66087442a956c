/* Sessions: runs of an executable that keep something from one to the next: its
 * states (a key/value cache, weights in training) and the memory of a run. Part
 * of libnabla-runtime. */
#ifndef NABLA_SESSION_H
#define NABLA_SESSION_H

#include "nabla/executable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* States of its own and room for one run. Any number of sessions of one
 * executable run at once, each on one thread at a time. */
typedef struct nabla_session nabla_session;

/* Zero-initialised but for struct_size: the executable's pool. */
typedef struct nabla_session_options {
  size_t struct_size; /* sizeof(nabla_session_options) */
  /* Threads of the session's runs, which outlive it; NULL: see `threads`. */
  nabla_pool *pool;
  /* 0: the executable's pool, for which runs wait their turn. Else the number
   * of threads, the caller included, of a pool of the session's own. Not
   * beside `pool`. */
  uint32_t threads;
} nabla_session_options;

/* Makes a session, whose states are zero. From the first session on weights can
 * no longer be bound to the executable: all sessions run what is bound then.
 * @param executable  is not freed before its last session is closed, whoever
 *                    closes it first; its environment and bound weights outlive
 *                    the session
 * @param options     NULL for the executable's pool
 * @param out         the caller's, to close
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  pool and threads, too many threads, a
 *                                 struct_size of another version
 *         NABLA_NO_MEMORY
 * Thread-safe, but not beside a bind. */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_create(
    nabla_executable *executable, const nabla_session_options *options,
    nabla_session **out, nabla_diag *diag);

/* Frees states and memory. Not while a run is on. NULL is allowed. */
NABLA_API void nabla_session_close(nabla_session *session);

/* Runs a function, which writes to the states that it has. Inputs and outputs
 * are as nabla_executable_run's; states are neither. Functions share a state by
 * its name. After a failure before the code began, states are as they were;
 * after one in the code of a function that has states, they may be half
 * written: the session is spent, and its runs are refused, until all states are
 * zeroed or copied (nabla_session_state_zero and _copy, name NULL).
 * @return as nabla_executable_run, and
 *         NABLA_INVALID_ARGUMENT  a run is on in this session, or it is spent
 * One thread at a time. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_session_run(nabla_session *session, const char *function,
                  const nabla_dense *inputs, size_t input_count,
                  nabla_dense *outputs, size_t output_count, nabla_diag *diag);

/* The states, in the order in which functions first name them: `state_name`,
 * dtype and shape. Pointers live as long as the session; NULL beyond the last.
 * Thread-safe. */
NABLA_API size_t nabla_session_state_count(const nabla_session *session);
NABLA_API const nabla_port *nabla_session_state(const nabla_session *session,
                                                size_t index);

/* Gives a state its value: a copy of `value`, of its dtype and shape.
 * @return NABLA_INVALID_ARGUMENT  no such state, a dtype or shape that differs,
 *                                 or a run is on */
NABLA_API NABLA_MUST_USE nabla_status
nabla_session_state_set(nabla_session *session, const char *name,
                        const nabla_dense *value, nabla_diag *diag);

/* Reads a state into `out`: as an output of nabla_executable_run, whose array
 * is allocated where `data` is NULL (nabla_dense_release).
 * @return as above, NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status
nabla_session_state_get(nabla_session *session, const char *name,
                        nabla_dense *out, nabla_diag *diag);

/* Sets a state to zero; all of them where `name` is NULL.
 * @return as nabla_session_state_set */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_state_zero(
    nabla_session *session, const char *name, nabla_diag *diag);

/* Copies a state of `from` to the state of that name, dtype and shape of `to`;
 * all states of `to` where `name` is NULL, or none on failure. The sessions may
 * be of different executables.
 * @return as nabla_session_state_set */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_state_copy(
    nabla_session *to, nabla_session *from, const char *name, nabla_diag *diag);

/* Bytes that a session holds, as its allocator gave them. */
typedef struct nabla_session_usage {
  size_t struct_size;   /* sizeof(nabla_session_usage), set by the caller */
  uint64_t state_bytes; /* of the states                                  */
  uint64_t run_bytes;   /* kept for runs: temporaries of the largest      */
  uint64_t other_bytes; /* of the session itself                          */
} nabla_session_usage;

/* Says how much memory a session holds between runs. A pool of its own is not
 * counted.
 * @return NABLA_INVALID_ARGUMENT  a struct_size of another version, or a run is
 *                                 on */
NABLA_API NABLA_MUST_USE nabla_status nabla_session_memory(
    nabla_session *session, nabla_session_usage *out, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
