/* Compiled functions: what they take and give, weights bound to them, runs.
 * Part of libnabla-runtime: nothing here needs a compiler. */
#ifndef NABLA_EXECUTABLE_H
#define NABLA_EXECUTABLE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/environment.h"
#include "nabla/model.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_ARRAY_MAX_RANK 16

/* A dimension that is known at run time only. */
#define NABLA_DYNAMIC (-1)

/* A dense, row-major array. Who owns `data` is said by each call. */
typedef struct nabla_dense {
  void *data;
  nabla_dtype dtype;
  uint32_t rank;
  int64_t shape[NABLA_ARRAY_MAX_RANK];
} nabla_dense;

/* What a function takes or gives at one place. */
typedef struct nabla_port {
  const char *name; /* of an argument: "x"; of a result: "" or a component */
  nabla_dtype dtype;
  uint32_t rank;
  int64_t shape[NABLA_ARRAY_MAX_RANK]; /* NABLA_DYNAMIC where any size goes */
  nabla_storage layout;                /* unless DENSE a weight must be bound */
  uint32_t component_count;  /* of the weight; 0 when dense              */
  const char *encoding_name; /* "" when dense; "nf4", "ggml<q4_0>"; also of
                                encodings that have no components and need
                                nothing bound: "splat"                     */
  const char *state_name;    /* "" unless the argument is a state, which is no
                                input: it lives in a session, nabla/session.h  */
  /* Of the first result of a packed array, which is one result for each of its
   * components: the array as a whole, with layout and components; else NULL.
   * nabla_session_call gives it as one. */
  const struct nabla_port *packed;
  /* 1 where the argument is donated: a run may overwrite the input's memory,
   * and results may be computed there. */
  int is_donated;
  /* 1 where a result is the piece that one device has of an array
   * (nabla_compile_options.results); its shape is that of the piece. */
  int is_piece;
} nabla_port;

typedef struct nabla_signature {
  const char *name;
  size_t argument_count, result_count;
  const nabla_port *arguments, *results;
} nabla_signature;

typedef struct nabla_executable nabla_executable;

/* Opens a saved program, made by nabla-compile -o PROGRAM.so, without a
 * compiler: docs/SAVED.md. A saved program is code, and as trusted as the
 * program that opens it: it is loaded from the path that the caller names and
 * found nowhere else. Before any of it runs, a record at its end is checked: a
 * hash of the file, the version of the services, the kind of machine, and
 * features that the CPU must have. The hash guards against damage, not malice.
 * The file must not be written to while it is open; to replace it, rename
 * another over it, as nabla-compile does.
 * @param environment  NULL or pool and allocator, which must outlive the
 *                     executable; `os` is not asked: the system's loader reads
 *                     the file
 * @param out          the caller's, to close
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  not a regular file
 *         NABLA_CORRUPT      no saved program, truncated, or damaged
 *         NABLA_UNSUPPORTED  another version, machine or ABI, a feature that
 *                            this CPU lacks, a custom call without a handler
 *         NABLA_TOO_LARGE    more than 1 GiB
 *         NABLA_IO           it cannot be read, or the system's loader refuses
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_executable_open(const char *path, const nabla_environment *environment,
                      nabla_executable **out, nabla_diag *diag);

/* Frees code and bindings, once its last session is closed. NULL is allowed.
 */
NABLA_API void nabla_executable_close(nabla_executable *executable);

/* Functions in the order of the module. Pointers live as long as it. */
NABLA_API size_t
nabla_executable_function_count(const nabla_executable *executable);
NABLA_API const nabla_signature *nabla_executable_function(
    const nabla_executable *executable, size_t index);
/* NULL when there is none of that name. */
NABLA_API const nabla_signature *nabla_executable_find(
    const nabla_executable *executable, const char *name);
/* The devices that the program is divided over, each of them a rank, which has
 * a session of its own; 1 of a program that is not divided. */
NABLA_API uint32_t nabla_executable_ranks(const nabla_executable *executable);

/* Binds `weight` to the arguments called `argument` of all functions; an
 * earlier binding is replaced. Checked: layout (encoding and block, or the
 * format of a GGUF file's blocks), shape, components. The dtype that a packed
 * weight had before packing is not: it decodes to what the function says. A
 * dense weight binds to a dense argument of its dtype and shape that is not
 * donated. Not while a run is on, not while it has a session, and not once code
 * has run in one.
 * Nothing is copied but the description: the components, and the model that has
 * them, live as long as the binding. They are aligned to their dtype, as those
 * of nabla_model_find are, which copies what a file has placed badly and counts
 * it in `copied_bytes`; blocks need no alignment.
 * @param weight  `desc` of what nabla_model_find gives, or a caller's own
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no such argument, or one that differs: the
 *                                 message names both sides; a component that is
 *                                 missing, too short or not aligned */
NABLA_API NABLA_MUST_USE nabla_status
nabla_executable_bind(nabla_executable *executable, const char *argument,
                      const nabla_weight_desc *weight, nabla_diag *diag);

/* What nabla_executable_bind_model found for one name. */
typedef enum nabla_bind_kind {
  NABLA_BIND_BOUND,   /* an argument and the tensor of its name fit          */
  NABLA_BIND_MISSING, /* a packed argument has no tensor                     */
  NABLA_BIND_DIFFERS, /* argument and tensor differ: `what` names both sides */
  NABLA_BIND_INPUT,   /* a dense argument without a tensor, or a donated one:
                         a run takes it                                      */
  NABLA_BIND_UNUSED,  /* a tensor without an argument                        */
  NABLA_BIND_KINDS
} nabla_bind_kind;

/* Options of nabla_executable_bind_model; members that are 0 are defaults. */
typedef struct nabla_bind_options {
  size_t struct_size; /* sizeof(nabla_bind_options) */
  /* Gets every name, also where the call fails in the end: arguments in order,
   * then tensors that are unused. `what` is "" but for DIFFERS. Texts live for
   * the call. */
  void (*report)(void *self, nabla_bind_kind kind, const char *name,
                 size_t length, const char *what);
  void *self;
  /* Weights that replace the tensors of their names, such as those that
   * nabla_model_pack has packed in memory. They live as long as the model. */
  const nabla_weight_desc *weights;
  size_t weight_count;
} nabla_bind_options;

/* What was found. */
typedef struct nabla_bind_summary {
  size_t counts[NABLA_BIND_KINDS];
  uint64_t bound_bytes;  /* of the weights, as stored                        */
  uint64_t copied_bytes; /* of components that lay unaligned in the file     */
} nabla_bind_summary;

/* Binds every argument of all functions whose name a tensor of `model` has.
 * Arguments that are bound already stay so where the model has no tensor for
 * them. Nothing is bound when an argument is MISSING or DIFFERS; tensors that
 * are unused, and dense arguments without a tensor, are no errors.
 * @param model    lives as long as the bindings
 * @param options  NULL: defaults
 * @param out      set also when an argument does not fit; may be NULL
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  arguments that do not fit: the message has
 *                                 their number and the names of the first
 *         NABLA_UNSUPPORTED       a tensor packed in a way this build cannot
 *                                 decode
 *         NABLA_NO_MEMORY
 * When nabla_executable_bind is refused, so is this. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_executable_bind_model(nabla_executable *executable, nabla_model *model,
                            const nabla_bind_options *options,
                            nabla_bind_summary *out, nabla_diag *diag);

/* Runs a function that has no states; those run in a session, nabla/session.h.
 * @param inputs  one per dense argument that is not bound, in order; borrowed,
 *                never written unless the argument is donated. `data` aligned
 *                to its dtype; may be NULL when there are no elements. Packed
 *                arguments must all be bound. What a donated input holds after
 *                the call is undefined; it overlaps no other input.
 * @param outputs one per result. `data` NULL: the result's array is allocated
 *                and given to the caller (nabla_dense_release); the other
 *                fields need not be set. Else dtype, rank and shape must be
 *                the result's. That memory may be an input's, but not that
 *                of a bound weight or another output. A result is computed
 *                there, without a copy, where the memory begins at a multiple
 *                of 64 bytes and is no input's. A result that the code computes
 *                in the memory of a donated input is not copied either if its
 *                output is that memory. What such arrays hold after a
 *                failure is undefined; others are untouched then.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no such function; a count, dtype, rank or
 *                                 dimension differs; an argument is not bound
 *         NABLA_NO_MEMORY
 * Thread-safe; runs of one executable share its pool and wait their turn
 * there. The bytes of the results do not depend on the number of threads. */
NABLA_API NABLA_MUST_USE nabla_status nabla_executable_run(
    nabla_executable *executable, const char *function,
    const nabla_dense *inputs, size_t input_count, nabla_dense *outputs,
    size_t output_count, nabla_diag *diag);

/* Frees the data of an output that nabla_executable_run allocated, or keeps it
 * for the next run's results, and sets it to NULL. `executable` is the one that
 * ran, and still open: release arrays before closing it. NULL is allowed.
 * Thread-safe for distinct arrays. */
NABLA_API void nabla_dense_release(nabla_executable *executable,
                                   nabla_dense *array);

#ifdef __cplusplus
}
#endif

#endif
