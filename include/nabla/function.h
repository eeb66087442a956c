/* Traced functions: callbacks that record operations once for each signature of
 * their arguments; later calls run the compiled program. And control flow,
 * whose parts are callbacks. Part of libnabla.
 *
 *   static void f(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
 *                 void *self) {
 *     const mlp *p = in->items[0].data; // a copy of the struct of the caller
 *     nabla_array *x = in->items[1].array;
 *     out->array = nabla_tanh(nabla_add(nabla_mul(x, p->w), p->b));
 *   }
 *   ...
 *   nabla_function_options options = {.struct_size = sizeof options,
 *                                     .name = "f"};
 *   if (nabla_function_create(engine, f, &options, &function, &diag)) ...
 *   nabla_tree items[2] = {nabla_tree_of_struct(&mlp_layout, &params),
 *                          nabla_tree_of_array(x)};
 *   nabla_tree in = nabla_tree_of_list(2, items);
 *   nabla_tree out = nabla_tree_of_array(NULL);
 *   if (nabla_function_call(function, &in, &out, &diag)) ... // out.array
 *
 * A signature is: dtype and shape of each leaf of the arguments, whether it is
 * a scalar without dtype, and the structure of both trees with their static
 * values. Dimensions that the options name have any size: in the callback the
 * shape has a negative number for it, which is given on as it is, and below
 * NABLA_DYNAMIC; dimensions of one name have one size.
 *
 * A callback gets places of its own for arguments and results. It is called
 * again for every new signature, on the thread of the call, and must record the
 * same operations for the same signature. Arrays from outside that it uses, and
 * scalars that it makes, are captured: they are arguments of the program, not
 * constants of it, and keep the values that they had. Nothing can be realized
 * or read while a function is traced: this is an error which names the place.
 */
#ifndef NABLA_FUNCTION_H
#define NABLA_FUNCTION_H

#include "nabla/array.h"
#include "nabla/compiler.h"
#include "nabla/session.h"
#include "nabla/sink.h"
#include "nabla/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- functions ---- */

typedef struct nabla_function nabla_function;

/* Records the results. `results` has the structure that the caller's has; its
 * places are NULL before and must not be after. Failures are those of
 * `scope`. */
typedef void (*nabla_function_callback)(nabla_scope *scope,
                                        const nabla_tree *arguments,
                                        nabla_tree *results, void *self);

/* A named dimension of an argument. */
typedef struct nabla_function_dim {
  const char *argument; /* the name of a leaf: "1", "x", "layers.0.w" */
  uint32_t dim;
  const char *name;
} nabla_function_dim;

/* An argument and the result that replaces it. A state has the name of the
 * argument. */
typedef struct nabla_function_replacement {
  const char *argument, *result; /* names of leaves; "" of one array alone */
} nabla_function_replacement;

/* Options of a function. Members that are 0 or NULL are defaults; all is
 * copied but `self`. */
typedef struct nabla_function_options {
  size_t struct_size; /* sizeof(nabla_function_options)        */
  const char *name;   /* for messages and MLIR; NULL: "main"   */
  void *self;         /* of the callback                       */
  const nabla_function_dim *dims;
  size_t dim_count;
  /* A function with states runs in sessions only. */
  const nabla_function_replacement *states;
  size_t state_count;
  /* Arguments whose memory the results take, of the same dtype and shape: the
   * program overwrites it. After a call such an array cannot be used. Memory
   * that is not the array's own, or that something else needs, is copied. */
  const nabla_function_replacement *donated;
  size_t donated_count;
  /* Signatures that are kept, 0: 64; the least recently used one goes first. */
  size_t max_signatures;
  /* Signatures that may be traced, 0: 16 times as many; those that were freed
   * count again. One more is an error that names the dimension which grows: it
   * should be named in `dims`. */
  uint64_t max_traces;
  /* What happens if packed arrays are decoded because no rule takes an
   * operation: "off", "warn", "error". NULL: as nabla_scope_set_policy says of
   * the scope of the call that traces. */
  const char *policy;
} nabla_function_options;

/* Counts since a function was created, and its present size. */
typedef struct nabla_function_statistics {
  size_t struct_size; /* sizeof(nabla_function_statistics), set by the caller */
  uint64_t hits;      /* calls whose signature was there             */
  uint64_t misses;    /* signatures that were traced                 */
  uint64_t evictions; /* signatures that were freed for others       */
  uint64_t signatures; /* that are kept now                           */
  uint64_t bytes;      /* of these: programs and their descriptions   */
  double compile_ms;   /* spent on all misses, tracing included       */
  /* Sums of nabla_compile_report (nabla/compiler.h) over all misses. */
  uint64_t materializations, rules, declined, fused;
} nabla_function_statistics;

/* Creates a function.
 * @param engine    outlives it
 * @param options   NULL for the defaults
 * @param out       the caller's, to destroy
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a struct_size of another version; a name that
 *                                 is missing in the options, or twice in
 *                                 `states` or in `donated`; a policy that is
 *                                 none
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_function_create(nabla_engine *engine, nabla_function_callback callback,
                      const nabla_function_options *options,
                      nabla_function **out, nabla_diag *diag);
/* Frees a function that no thread is calling, and whose sessions were closed.
 * NULL is allowed. */
NABLA_API void nabla_function_destroy(nabla_function *function);

/* Computes the results, which are new arrays of the innermost scope of the
 * calling thread, at the places of `results`. Pending arguments are realized.
 * While another function is traced the callback is called instead: its
 * operations become part of that trace.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  an argument is NULL, or no scope of the
 *                                 function's engine is entered; dimensions of
 *                                 one name differ; the callback realized an
 *                                 array, or left a result NULL; states
 *         NABLA_TOO_LARGE         more signatures than `max_traces`
 *         and the status of recording, compiling and running; failures become
 *         those of the scope. Then no place of `results` is written.
 * Thread-safe: a signature is traced by one thread, for which others wait. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_function_call(nabla_function *function, const nabla_tree *arguments,
                    nabla_tree *results, nabla_diag *diag);

/* Writes `out`.
 * @return NABLA_OK, or NABLA_INVALID_ARGUMENT for a struct_size of another
 *         version. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_count(
    nabla_function *function, nabla_function_statistics *out, nabla_diag *diag);

/* A signature that is kept, or that a file has. */
typedef struct nabla_function_signature {
  size_t struct_size; /* sizeof(nabla_function_signature) */
  size_t argument_count, captured_count, result_count; /* arrays */
} nabla_function_signature;
/* Describes signature `index`, the one that was used last being 0.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  there are not so many
 * Thread-safe; a call of another thread changes the order. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_function_describe(nabla_function *function, size_t index,
                        nabla_function_signature *out, nabla_diag *diag);

/* Writes the programs of all signatures that are kept as MLIR, the one that was
 * used last first. Arguments have the names of leaves, named dimensions
 * (`nabla.dims`), and `nabla.captured` if they were captured.
 * @return NABLA_OK, NABLA_NO_MEMORY, NABLA_CORRUPT (a defect of this library),
 *         or what the sink returned. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_print(
    nabla_function *function, const nabla_sink *sink, nabla_diag *diag);

/* How nabla_function_emit writes a program. Members that are 0 or NULL are
 * defaults. */
typedef struct nabla_function_emit_options {
  size_t struct_size; /* sizeof(nabla_function_emit_options) */
  /* Trees of a call, both or neither: the signature, which is traced if it was
   * not called yet. NULL: that of a function which has one. */
  const nabla_tree *arguments, *results;
  const nabla_compile_options *compile; /* NULL: those of the engine */
  /* The path of a safetensors file that gets the values of captured arrays, as
   * nabla_tree_write writes them; NULL: none is written. */
  const char *captured;
  int force; /* replace that file */
} nabla_function_emit_options;

/* Compiles the program of one signature, such as a saved program for machines
 * without a compiler (NABLA_EMIT_SO), and gives it to `sink`. Its function is
 * "main": of an argument for each leaf, which has the leaf's name and may be
 * bound under it, then of each captured array, "captured:0" and so on, to which
 * the program that runs it binds a value: nabla_executable_bind_model of the
 * file `captured` does. Captured numbers (nabla_scalar, nabla_integer) are
 * constants of the program, unless the function was loaded. An argument tree
 * that is one leaf has no name. States and donated arguments stay so; named
 * dimensions are sizes that are not known. On a mesh arguments and results are
 * whole.
 * @param options  NULL for the defaults
 * On failure no file of captured arrays is written, but where the sink fails.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no signature yet, or several, and no trees;
 *                                 a file for captured arrays where there are
 *                                 none; options, or a program that cannot be
 *                                 compiled, with the first error
 *         NABLA_UNSUPPORTED       no linker is there, or an encoding that
 *                                 nabla_tree_write refuses
 *         NABLA_EXISTS            the file `captured`, without `force`
 *         NABLA_IO, NABLA_TOO_LARGE, NABLA_NO_MEMORY
 *         and what the sink, and where trees are given the tracing, returned.
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_function_emit(nabla_function *function, nabla_emission emission,
                    const nabla_function_emit_options *options,
                    const nabla_sink *sink, nabla_diag *diag);

/* Writes the signatures that are kept to a file: their programs as MLIR
 * bytecode of version 4, and the values of arrays that they captured; packed
 * ones stay packed. The file stands under its name when it is complete.
 * @param force  replace an existing file
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no signature was traced yet
 *         NABLA_UNSUPPORTED       a packed array was captured whose encoding
 *                                 is no row of nabla_encodings or GGML
 *         NABLA_EXISTS            without `force`
 *         NABLA_IO, NABLA_TOO_LARGE, NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_save(
    nabla_function *function, const char *path, int force, nabla_diag *diag);

/* Reads a file of nabla_function_save, also of earlier versions of this
 * library. The function is called, and makes sessions, as the one that was
 * saved: with arguments of the same structure and the same bytes of static
 * values, which therefore hold no pointers. Results may be a tree of another
 * structure with as many leaves, such as a flat list. A signature is compiled
 * when it is called first, and counted as a hit; there are no others than those
 * of the file. While another function is traced, a call of a loaded function is
 * a func.call of its program, as nabla_call makes one.
 *
 * A file is as trusted as code: its hash guards against damage, not malice.
 * @param engine  outlives the function
 * @param out     the caller's, to destroy
 * @return NABLA_OK
 *         NABLA_CORRUPT      damaged, with the offset
 *         NABLA_UNSUPPORTED  of a later version, or an operation or an encoding
 *                            that this library does not have, by name
 *         NABLA_IO, NABLA_TOO_LARGE, NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_load(nabla_engine *engine,
                                                          const char *path,
                                                          nabla_function **out,
                                                          nabla_diag *diag);

/* Gives a function bytes that are saved and loaded with it, in place of those
 * that it had: for programs that keep, for example, the structure of trees of
 * another language. They are copied.
 * @return NABLA_OK, NABLA_TOO_LARGE for more than 2^24 bytes, NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_set_note(
    nabla_function *function, size_t size, const void *bytes, nabla_diag *diag);
/* These bytes, which live until others are given; NULL, and a size of 0, if
 * there are none. */
NABLA_API const void *nabla_function_borrow_note(const nabla_function *function,
                                                 size_t *out_size);

/* Makes a session (nabla/session.h) of the signature of `arguments` and
 * `results`; its function is "main". The inputs of a run are the leaves of the
 * arguments that are no states, the outputs those of the results that are none,
 * in order. States have the values that the arguments have, which the session
 * copies.
 * @param options  NULL for the defaults
 * @param out      the caller's, to close before the function is destroyed
 * @return as nabla_function_call and nabla_session_create;
 *         NABLA_INVALID_ARGUMENT  also while a function is traced; a state that
 *                                 no leaf has */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_session(
    nabla_function *function, const nabla_tree *arguments,
    const nabla_tree *results, const nabla_session_options *options,
    nabla_session **out, nabla_diag *diag);

/* ---- control flow ----
 *
 * Functions that record one operation, whose parts are callbacks. Each callback
 * is traced once and at once, whether its part will run or not; it may use
 * arrays from outside. Values that are carried from step to step are trees; at
 * most 32 leaves are carried or given, and their dtypes and shapes do not
 * change. All places of `results` are written: with NULL after a failure, which
 * is that of the scope, nabla_scope_status. */

/* Records a choice: `yes` gives the results if `predicate`, a truth value of
 * rank 0, is true, otherwise `no`. Both get `operands` as they are and give
 * results of the same dtypes and shapes. */
NABLA_API void nabla_cond(nabla_array *predicate, nabla_function_callback yes,
                          nabla_function_callback no, void *self,
                          const nabla_tree *operands, nabla_tree *results);

/* Records a loop: as long as `condition` gives true, a tree that is one leaf,
 * `body` gives the next values. Both get the values of this step, the first
 * ones being `initial`. `results`, of the structure of `initial`, gets the
 * last. */
NABLA_API void nabla_while(nabla_function_callback condition,
                           nabla_function_callback body, void *self,
                           const nabla_tree *initial, nabla_tree *results);

/* A loop over a dimension. */
typedef struct nabla_scan_options {
  size_t struct_size; /* sizeof(nabla_scan_options)                      */
  /* Carried from step to step; NULL: nothing. */
  const nabla_tree *initial;
  /* Arrays over whose first dimension, of one size, the loop goes. */
  const nabla_tree *inputs;
  int reverse; /* begins at the last index */
} nabla_scan_options;

/* Records a loop. In each step `body` gets a list of two trees: what is
 * carried, and the inputs at this index, without their first dimension. It
 * gives a list of two: what is carried on, and outputs, which are stacked along
 * a new first dimension.
 * @param carried  gets what is carried after the last step; NULL if nothing is
 * @param outputs  gets the stacked outputs; NULL: there are none */
NABLA_API void nabla_scan(nabla_function_callback body, void *self,
                          const nabla_scan_options *options,
                          nabla_tree *carried, nabla_tree *outputs);

/* Records a call of a function: a func.call of a private function, so that
 * calls that are alike are compiled once. nabla_function_call within a trace
 * puts its operations into the trace instead. At most 64 arguments and captured
 * arrays; states are of no effect. */
NABLA_API void nabla_call(nabla_function *function, const nabla_tree *arguments,
                          nabla_tree *results);

#ifdef __cplusplus
}
#endif

/* nabla/here.h */
#ifdef NABLA_HAS_HERE
#define nabla_cond(...)  NABLA_HERE_VOID(nabla_cond(__VA_ARGS__))
#define nabla_while(...) NABLA_HERE_VOID(nabla_while(__VA_ARGS__))
#define nabla_scan(...)  NABLA_HERE_VOID(nabla_scan(__VA_ARGS__))
#define nabla_call(...)  NABLA_HERE_VOID(nabla_call(__VA_ARGS__))
#define nabla_function_call(...) \
  NABLA_HERE_STATUS(nabla_function_call(__VA_ARGS__))
#define nabla_function_session(...) \
  NABLA_HERE_STATUS(nabla_function_session(__VA_ARGS__))
#endif

#endif
