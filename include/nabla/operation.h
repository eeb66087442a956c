/* Operations of users: functions of arrays that are recorded under a name of
 * their own. Part of libnabla.
 *
 *   static void swish(nabla_scope *scope, const nabla_operation_frame *frame,
 *                     nabla_array **results) {
 *     nabla_array *x = frame->operands[0];
 *     results[0] = nabla_mul(x, nabla_sigmoid(x));
 *   }
 *   static const nabla_operation operation = {.struct_size = sizeof operation,
 *                                             .name = "swish",
 *                                             .kind = NABLA_OPERATION_UNARY,
 *                                             .body = swish};
 *   ...
 *   if (nabla_add_operation(&operation, &diag)) ...
 *   nabla_array *y = nabla_apply(&operation, 1, &x, NULL);
 *
 * An operation with a `body` becomes a call of a private function NAME.HASH in
 * MLIR; one with a `handler` is a nabla.custom_call of that target, for which
 * nabla/custom_call.h has the C function. An operation has no state: a
 * structure is added once and lives for the rest of the process. */
#ifndef NABLA_OPERATION_H
#define NABLA_OPERATION_H

#include "nabla/array.h"
#include "nabla/attribute_tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Operands, results of most operations: what may be left out because the kind
 * says it. */
typedef enum nabla_operation_kind {
  NABLA_OPERATION_OTHER,  /* any number of operands and results              */
  NABLA_OPERATION_UNARY,  /* one operand, one result of its dtype and shape  */
  NABLA_OPERATION_BINARY, /* two operands, which are converted to one dtype
                             and broadcast to one shape, that of the result  */
  NABLA_OPERATION_REDUCE, /* one operand; the result lacks the dimension that
                             the attribute `axis` names, an integer, or has
                             size 1 there if `keep_dims` is true             */
  NABLA_OPERATION_AXIS,   /* one operand, one result of its dtype and shape;
                             `axis` names a dimension                        */
  NABLA_OPERATION_SHAPE,  /* one operand, whose elements are placed otherwise */
  NABLA_OPERATION_CREATION,   /* no operands                                 */
  NABLA_OPERATION_COLLECTIVE, /* which devices do together: its handler has a
                                 partitioner, nabla/shard.h, whose program
                                 exchanges values; one device calls it whole */
  NABLA_OPERATION_KINDS
} nabla_operation_kind;

typedef struct nabla_operation nabla_operation;

/* One use of an operation; valid during a call. */
typedef struct nabla_operation_frame {
  size_t struct_size; /* sizeof(nabla_operation_frame), set by the library */
  const nabla_operation *operation;
  size_t operand_count, result_count;
  nabla_array *const *operands; /* NULL for `infer` and `vjp`                */
  const nabla_dense *types;     /* of the operands: unknown sizes are numbers
                                   below NABLA_DYNAMIC, nabla/function.h     */
  const nabla_attribute_tree *attributes; /* a dictionary, or NULL           */
} nabla_operation_frame;

/* An operation. Members that are NULL are left out. Exactly one of `body` and
 * `handler` is set. With a `body` its derivative is that of the operations
 * which it records, unless it brings one; with a `handler` it has none of its
 * own. `cost`, `memory` and `wants` are read by no pass of this version: an
 * operation that sets one is refused with NABLA_UNSUPPORTED. */
struct nabla_operation {
  size_t struct_size; /* sizeof(nabla_operation) */
  const char *name;   /* letters, digits, '_' and '.'; at most 60 */
  nabla_operation_kind kind;
  /* Writes dtype and shape of each result. What it returns other than NABLA_OK
   * is the status of the scope. Needed with a `handler`, unless the kind says
   * it; with a `body`, types of results that differ are refused. */
  nabla_status (*infer)(const nabla_operation_frame *frame,
                        nabla_dense *results, nabla_diag *diag);
  /* Records it. No result may be NULL after. */
  void (*body)(nabla_scope *scope, const nabla_operation_frame *frame,
               nabla_array **results);
  const char *handler; /* the target of a custom call, whose handler was added
                          before, and is NABLA_CALL_PURE */
  /* The derivative of y, the result, by x, element by element: of the kind
   * UNARY, in place of the three members below. */
  nabla_array *(*derivative)(nabla_array *x, nabla_array *y);
  /* Records the results, and `saved_count` arrays that `vjp` gets, at most 64;
   * NULL: the operands are saved, then the results. */
  void (*forward)(const nabla_operation_frame *frame, nabla_array **results,
                  nabla_array **saved);
  size_t saved_count;
  /* Records the cotangent of each operand, from what was saved and the
   * cotangent of each result (NULL where that is not of floats). `operands` of
   * the frame is NULL. What is left NULL is 0. */
  void (*vjp)(const nabla_operation_frame *frame, nabla_array *const *saved,
              nabla_array *const *cotangents, nabla_array **out);
  /* Records the tangent of each result, from that of each operand (NULL where
   * that is packed or not of floats). What is left NULL is 0. */
  void (*jvp)(const nabla_operation_frame *frame, nabla_array *const *tangents,
              nabla_array **out);
  /* Says how a handler is applied to a batch (nabla_vmap), called once: for
   * each operand `dims` has the dimension that is the batch, NABLA_NO_AXIS of
   * nabla/derivative.h where it has none; it writes that of each result, which
   * NABLA_NO_AXIS leaves the same for all examples. `types` of the frame are
   * those of the call, with the batch; `operands` is NULL. Called on any
   * thread. Without it the handler is called for one example after the other.
   */
  void (*batch)(const nabla_operation_frame *frame, const int64_t *dims,
                int64_t *result_dims);
  /* How a handler is divided between devices, docs/SHARDING.md: the factors of
   * operands and results; how the results of devices are joined over those that
   * no result has: "sum", "max", "min" or "prod". Text that does not read is
   * reported when a program is divided. */
  const char *factors; /* "m k, k n -> m n" */
  const char *reduction;
  double (*cost)(const nabla_operation_frame *frame);
  double (*memory)(const nabla_operation_frame *frame);
  const char *wants; /* the encoding of an operand */
};

/* Adds an operation for the rest of the process, for which it must live.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no legal name, or a taken one; both body and
 *                                 handler, or neither; a handler that was not
 *                                 added, or without an infer that it needs;
 *                                 members of a derivative that do not go
 *                                 together; factors or a batch of a body; a
 *                                 batch of a handler that has rules
 *                                 (nabla/mlir.h) or another operation's; a
 *                                 COLLECTIVE without a partitioner; a
 *                                 struct_size of another version
 *         NABLA_UNSUPPORTED       a member that no pass reads, by name; a
 *                                 handler that is not pure
 *         NABLA_TOO_LARGE         more than 1024 operations
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_add_operation(const nabla_operation *operation, nabla_diag *diag);
/* The operation of a user by its name; NULL. Thread-safe. */
NABLA_API const nabla_operation *nabla_operation_find(const char *name);

/* An operation: one of nabla/array.h, or of a user. */
typedef struct nabla_operation_entry {
  size_t struct_size; /* sizeof(nabla_operation_entry), set by the library */
  const char *name;   /* "add": nabla_add; or that of the user's           */
  const char *op;     /* "nabla.add"; "parts": several; "" of a user       */
  nabla_operation_kind kind;
  const nabla_operation *operation; /* NULL for those of nabla/array.h     */
} nabla_operation_entry;
/* Calls `visit` for every operation, those of nabla/array.h first, until it
 * returns 0. Thread-safe. */
NABLA_API void nabla_operations(
    int (*visit)(void *self, const nabla_operation_entry *entry), void *self);

/* Records an operation that was added. `attributes` is a dictionary, or NULL.
 * Returns its one result. NULL after a failure. */
NABLA_API nabla_array *nabla_apply(const nabla_operation *operation,
                                   size_t operand_count,
                                   nabla_array *const *operands,
                                   const nabla_attribute_tree *attributes);
/* The same for any number of results, at most 64, which are all written: with
 * NULL after a failure. */
NABLA_API void nabla_apply_all(const nabla_operation *operation,
                               size_t operand_count,
                               nabla_array *const *operands,
                               const nabla_attribute_tree *attributes,
                               size_t result_count, nabla_array **results);

#ifdef __cplusplus
}
#endif

/* nabla/here.h */
#ifdef NABLA_HAS_HERE
#define nabla_apply(...)     NABLA_HERE(nabla_apply(__VA_ARGS__))
#define nabla_apply_all(...) NABLA_HERE_VOID(nabla_apply_all(__VA_ARGS__))
#endif

#endif
