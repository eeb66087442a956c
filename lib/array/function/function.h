/* Functions (nabla/function.h) and their signatures: the cache (function.c),
 * tracing (function_trace.c), calls (function_call.c), sessions
 * (function_session.c), files (function_save.c, function_load.c), and loaded
 * functions within traces (function_import.c). */
#ifndef NABLA_ARRAY_FUNCTION_H
#define NABLA_ARRAY_FUNCTION_H

#include <pthread.h>

#include "lib/array/emit.h"
#include "lib/array/engine.h"
#include "lib/array/function/tree_walk.h"
#include "lib/array/trace.h"
#include "nabla/function.h"

typedef enum nabla_signature_state {
  NABLA_SIGNATURE_TRACING,
  NABLA_SIGNATURE_READY,
  NABLA_SIGNATURE_FAILED,
  NABLA_SIGNATURE_SAVED, /* it was loaded, and is compiled when it is called */
} nabla_signature_state;

/* Where an unknown size of a result comes from. */
typedef struct nabla_result_size {
  uint32_t leaf, dim; /* leaf: UINT32_MAX where it is computed */
} nabla_result_size;

/* A result of a traced function. */
typedef struct nabla_traced_result {
  nabla_array_type type; /* sizes below 0: */
  nabla_result_size sizes[NABLA_ARRAY_MAX_RANK];
  uint32_t donor; /* the argument whose memory it takes; UINT32_MAX: none */
  bool is_open;   /* has a size that is computed */
} nabla_traced_result;

/* A traced signature. */
typedef struct nabla_traced {
  XXH128_hash_t hash;
  uint8_t *key; /* a copy */
  size_t key_size;
  char *text; /* of a signature that was loaded, for messages; or NULL */
  size_t text_size;
  nabla_signature_state state;
  bool is_kept; /* in the table */
  uint32_t users;
  size_t argument_count, capture_count, result_count;
  nabla_array **captures; /* held, realized */
  nabla_traced_result *results;
  nabla_buffer bytecode;
  nabla_buffer ruled; /* the same with rules of derivatives, for files; or empty
                       */
  nabla_array_policy policy;
  nabla_dispatch_counts counts;
  nabla_program *program;  /* NULL for a function with states */
  nabla_program *sessions; /* for sessions: captures are bound; or NULL */
  uint64_t bytes;
  struct nabla_traced *chain;         /* of its bucket */
  struct nabla_traced *newer, *older; /* by last use   */
} nabla_traced;

/* The name of a captured argument, of its number. */
#define NABLA_CAPTURED_NAME "captured:%zu"

#define NABLA_FUNCTION_BUCKETS ((size_t)64)

struct nabla_function {
  nabla_engine *engine;
  const nabla_allocator *allocator;
  nabla_function_callback callback;
  /* NULL, or frees `options.self` when the function is destroyed. */
  void (*release)(void *self);
  uint64_t number; /* of this process */
  bool is_loaded;  /* has the signatures of its file only */
  nabla_array_policy policy;
  /* Copies; texts are in `texts`. */
  nabla_function_options options;
  nabla_function_dim *dims;
  nabla_function_replacement *states, *donated;
  nabla_buffer texts;
  nabla_buffer note;
  pthread_mutex_t lock;   /* of all below */
  pthread_cond_t changed; /* a signature was traced */
  nabla_traced *buckets[NABLA_FUNCTION_BUCKETS];
  nabla_traced *newest, *oldest;
  nabla_function_statistics counts;
};

/* The trees of a call, with its key. */
typedef struct nabla_function_arguments {
  nabla_function *function;
  nabla_scope *scope;
  const nabla_tree *arguments, *results;
  nabla_array **leaves; /* of the arguments */
  size_t count;
  size_t result_count;   /* of which those at open places may be too many */
  bool has_open;         /* results whose structure the callback gives */
  size_t arguments_size; /* bytes of the key without results and sizes */
  nabla_buffer leaves_memory, key;
  nabla_buffer dims;  /* int64_t for each dimension of each leaf: -1 - number of
                         its name, or its size */
  nabla_buffer named; /* int64_t for each entry of the options' dims */
} nabla_function_arguments;

/* Reads the trees. Deinit also after a failure. */
NABLA_MUST_USE nabla_status nabla_function_read(nabla_function_arguments *call,
                                                nabla_diag *diag);
void nabla_function_unread(nabla_function_arguments *call);

/* Traces and compiles; `traced` is new. Runs the callback on this thread. */
NABLA_MUST_USE nabla_status
nabla_function_trace(const nabla_function_arguments *call, nabla_traced *traced,
                     nabla_diag *diag);

/* Finds the signature of a call, or traces it. Given back by
 * nabla_function_give. */
NABLA_MUST_USE nabla_status nabla_function_take(
    const nabla_function_arguments *call, nabla_traced **out, nabla_diag *diag);
void nabla_function_give(nabla_function *function, nabla_traced *traced);

/* The signature after `last`, by use, that has a program; the caller gives it
 * back. NULL at the end. */
nabla_traced *nabla_function_next(nabla_function *function, nabla_traced *last);
/* Finds or compiles a program of one signature of this function alone, for
 * sessions of users or for calls. */
NABLA_MUST_USE nabla_status nabla_function_take_program(
    const nabla_function *function, nabla_traced *traced, bool has_sessions,
    nabla_program **out, nabla_diag *diag);

/* Writes the program of a signature as text; as one for elsewhere, where it
 * `is_emitted`: nabla_traced_freeze. */
NABLA_MUST_USE nabla_status nabla_traced_print(const nabla_function *function,
                                               const nabla_traced *traced,
                                               const nabla_recorder *recorder,
                                               bool is_emitted,
                                               const nabla_sink *sink,
                                               nabla_diag *diag);

/* Whether a captured array is a number: a scalar without a dtype of its own. */
bool nabla_traced_is_number(const nabla_traced *traced, size_t capture);
/* The captured arrays that are none. */
size_t nabla_traced_array_count(const nabla_traced *traced);
/* Makes numbers constants of "main" in the module of the program, and numbers
 * the captured arrays that stay arguments. */
NABLA_MUST_USE nabla_status nabla_traced_freeze(
    const nabla_traced *traced, const nabla_allocator *allocator,
    MlirModule module, nabla_diag *diag);
/* The scope of this thread, for something that a function makes of a call: it
 * has to be of the function's engine, and in no trace. */
NABLA_MUST_USE nabla_status nabla_function_scope(const nabla_function *function,
                                                 const char *what,
                                                 nabla_scope **out,
                                                 nabla_diag *diag);

/* ---- of loaded functions ---- */

/* Adds a signature, which the caller fills before the function is called. */
NABLA_MUST_USE nabla_status nabla_function_add_saved(nabla_function *function,
                                                     const uint8_t *key,
                                                     size_t key_size,
                                                     nabla_traced **out,
                                                     nabla_diag *diag);
/* Compiles the program of a signature. */
NABLA_MUST_USE nabla_status nabla_function_compile_saved(
    nabla_function *function, nabla_traced *traced, nabla_diag *diag);
/* Finds the signature of a call. It stays, as the signatures of a loaded
 * function do, and may not be compiled. */
NABLA_MUST_USE nabla_status
nabla_function_find_saved(const nabla_function_arguments *call,
                          const nabla_traced **out, nabla_diag *diag);
/* The callback, within a trace: records a call of a private function, which is
 * the program of the signature. `self` is the function. */
void nabla_function_call_saved(nabla_scope *scope, const nabla_tree *arguments,
                               nabla_tree *results, void *self);
/* Says which signatures the function has; its lock is held. */
NABLA_MUST_USE nabla_status nabla_function_refuse_unsaved(
    const nabla_function_arguments *call, nabla_diag *diag);

/* The entry of a list by the name of its argument, or result; NULL. */
const nabla_function_replacement *nabla_function_find(
    size_t count, const nabla_function_replacement *list, const char *name,
    bool is_result);

#endif
