/* Functions applied to a batch (nabla-vmap). The source is a clone of the
 * function that nothing else uses; each of its operations is made anew, before
 * `b.before`: as it is where no operand is batched, else by the rule that
 * BATCH or BATCH_BY in ops.def names. A batched value has the batch as its
 * first dimension. A batched value of an implicit type is an implicit array of
 * all examples where each example has whole blocks, else a tensor. Functions
 * are in build_batch.c (values, copies), engine.c (blocks), each.c (one example
 * after the other), rules_elements.c (words), control.c, call.c and make.c
 * (functions); rules by name in rules_*.c,
 * nabla_batch_arguments in rules_shard.c. */
#ifndef NABLA_TRANSFORMS_BATCHING_BATCHING_H
#define NABLA_TRANSFORMS_BATCHING_BATCHING_H

#include "transforms/batching/values.h"
#include "transforms/ir/build.h"

/* A function of a batch that was made for a func.call. */
typedef struct nabla_batched_function {
  MlirOperation callee, made;
  intptr_t arguments, results;
  MlirType types[NABLA_MAX_OPERANDS]; /* of its arguments, and which of them */
  bool takes[NABLA_MAX_OPERANDS];     /* are batched */
  bool batched[NABLA_MAX_RESULTS];    /* its results */
  struct nabla_batched_function *next;
} nabla_batched_function;

/* What all functions that one run makes have in common. */
typedef struct nabla_batch_run {
  MlirOperation module;
  nabla_batched_function *functions;
  unsigned number; /* of functions made for calls */
  /* the axis of the mesh that the batch stands on, or NULL, and its size */
  const char *spmd_axis, *mesh;
  int64_t spmd_size;
} nabla_batch_run;

typedef struct nabla_batching {
  nabla_batch_run *run;
  nabla_builder b;
  MlirOperation op; /* of the source, for errors */
  int64_t size;     /* of the batch, or MLIR's number for a dynamic one */
  MlirValue count;  /* the size as an index, if it is dynamic */
  nabla_batch_values map;
  bool wants_parts; /* a rule asks for the decomposition of its op */
} nabla_batching;

/* A rule: makes the operations that stand for `op`, and gives its results.
 * False after an error was reported. */
typedef bool nabla_batch_rule_function(nabla_batching *s, MlirOperation op);
#define OP(id, columns) columns
#define BATCH_BY(name)  nabla_batch_rule_function nabla_batch_##name;
#include "dialect/ops.def"

/* ---- values ---- */

/* What stands for a value of the source. */
nabla_batched nabla_batch_get(const nabla_batching *s, MlirValue value);
bool nabla_batch_is(const nabla_batching *s, MlirValue value);
/* Operand `index` of a source operation: what stands for it, and with the batch
 * in front, repeated where it has none. */
MlirValue nabla_batch_operand(const nabla_batching *s, MlirOperation op,
                              intptr_t index);
MlirValue nabla_batch_full(const nabla_batching *s, MlirValue value);
/* The same as a tensor. */
MlirValue nabla_batch_dense(const nabla_batching *s, MlirValue value);
/* Result `index` of a source operation is `value`, which is batched; false for
 * a null value. */
bool nabla_batch_give(nabla_batching *s, MlirOperation op, intptr_t index,
                      MlirValue value);
/* The same for what is `to`. */
bool nabla_batch_set(nabla_batching *s, MlirValue key, nabla_batched to);

/* The tensor type of a batch of such arrays, and the implicit one: null where
 * an example is not whole blocks or the size is dynamic. */
MlirType nabla_batch_type(const nabla_batching *s, MlirType type);
MlirType nabla_batch_implicit(int64_t size, MlirType type);

/* ---- building ---- */

/* A source operation with other operands, result types (-1: inferred) and
 * attributes: those of the op but for `changes`. Null after an error. */
typedef struct nabla_batch_copy {
  MlirOperation op;
  intptr_t operand_count, result_count, change_count;
  const MlirValue *operands;
  const MlirType *results;
  const MlirNamedAttribute *changes;
} nabla_batch_copy;
MlirOperation nabla_batch_copied(const nabla_batching *s,
                                 const nabla_batch_copy *copy);
/* Result 0; null for a null op. */
MlirValue nabla_batch_first(MlirOperation op);
/* nabla_batch_copied with inferred results, which become those of the op. */
bool nabla_batch_infer(nabla_batching *s, const nabla_batch_copy *copy);

/* An attribute list of the op with 1 added to each number, behind `count`
 * numbers. */
typedef struct nabla_batch_list {
  intptr_t count;
  int64_t values[2 * NABLA_MAX_RANK];
} nabla_batch_list;
nabla_batch_list nabla_batch_read(MlirOperation op, const char *key);
/* 1 is added to each number. */
nabla_batch_list nabla_batch_shifted(MlirOperation op, const char *key);
void nabla_batch_prepend(nabla_batch_list *list, int64_t value);
MlirNamedAttribute nabla_batch_attribute(const nabla_batching *s,
                                         const char *key,
                                         const nabla_batch_list *list);

MlirValue nabla_batch_materialized(const nabla_batching *s, MlirValue x);
MlirValue nabla_batch_cast(const nabla_batching *s, MlirValue x, MlirType type);
/* Moves dimension `from` of x to `to`. */
MlirValue nabla_batch_move(const nabla_batching *s, MlirValue x, intptr_t from,
                           intptr_t to);
/* A shape with the batch in front. */
nabla_built_shape nabla_batch_shape(const nabla_batching *s,
                                    const nabla_built_shape *one);

/* ---- operations ---- */

/* Whether an operation has an operand, or uses in a region a value, that is
 * batched. */
bool nabla_batch_touches(const nabla_batching *s, MlirOperation op);
/* Makes the operations of a block, without its terminator. */
bool nabla_batch_block(nabla_batching *s, MlirBlock block);
/* Makes an op as it is. */
bool nabla_batch_clone(nabla_batching *s, MlirOperation op);
/* The op for one example after the other. */
bool nabla_batch_each(nabla_batching *s, MlirOperation op);
/* The same behind another op, which makes its only operand. */
bool nabla_batch_each_behind(nabla_batching *s, MlirOperation before,
                             MlirOperation op);
bool nabla_batch_elementwise(nabla_batching *s, MlirOperation op);
/* The same of arith and math: numbers that are no tensors, such as the
 * condition of a select, are the same for all examples. */
bool nabla_batch_arithmetic(nabla_batching *s, MlirOperation op);
/* The op itself, with attributes changed as `keys` says (ops.def). */
bool nabla_batch_dims(nabla_batching *s, MlirOperation op, const char *keys);
/* Asks for the op's decomposition. */
bool nabla_batch_parts(nabla_batching *s, MlirOperation op);
/* Operations with regions, and func.call. */
bool nabla_batch_control(nabla_batching *s, MlirOperation op);
bool nabla_batch_call(nabla_batching *s, MlirOperation op);

/* Shardings of arguments of a function that was made: `axes` has the dimension
 * of each that is its batch. False after an error. */
bool nabla_batch_arguments(nabla_batching *s, MlirOperation function,
                           const intptr_t *axes);

/* Which values of a block, whose arguments are batched as `arguments` says,
 * are: `results` says it for the operands of its terminator. */
void nabla_batch_flow(const nabla_batching *s, MlirBlock block,
                      const bool *arguments, bool *results);

/* ---- functions ---- */

/* Makes a function `name` from `function`, whose arguments have the types
 * `types` and are batched as `batched` says, axis by axis: NABLA_BATCH_NO_AXIS
 * is none. */
#define NABLA_BATCH_NO_AXIS INTPTR_MIN
typedef struct nabla_batch_function {
  MlirOperation function;
  const char *name;
  bool is_private;
  int64_t size;
  const intptr_t *in_axes;
  const MlirType *types;    /* NULL: those of the function and the axes */
  const intptr_t *out_axes; /* NULL: 0 for what is batched */
  bool has_rules;           /* its rule functions are batched by the caller */
  bool *out_batched;        /* NULL, or receives what is batched */
} nabla_batch_function;
MlirOperation nabla_batch_make(nabla_batch_run *run,
                               const nabla_batch_function *how);

#endif
