/* Operations of a graph as MLIR: an operation of each kind that was recorded,
 * where the kind is name, attributes and types of operands. Nodes of the graph
 * refer to them, so that recording an operation for the second time finds it by
 * a hash and makes nothing. */
#ifndef NABLA_ARRAY_RECORDER_H
#define NABLA_ARRAY_RECORDER_H

#include <mlir-c/IR.h>
#include <stdbool.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/array/dtypes.h"
#include "lib/base/memory.h"
#include "nabla/executable.h"

/* A dtype and a shape; `data` is not used. */
typedef nabla_dense nabla_array_type;

/* The dtype of a size, in rank 0: MLIR's index. Only within a trace. */
#define NABLA_DTYPE_INDEX nabla_dtype_numbered(NABLA_DTYPE_COUNT + 1)

/* A kind of operation. The first `direct_count` operands are those of the
 * operation; the others are used inside of its regions, where operations
 * NABLA_CAST with the attribute NABLA_CAPTURE, the operand's number, stand for
 * them at the beginning of a block. */
typedef struct nabla_recorded {
  XXH128_hash_t hash;
  MlirOperation op; /* its operands are placeholders of their types */
  uint32_t operand_count, direct_count, result_count;
  nabla_array_type results[];
} nabla_recorded;

typedef enum nabla_attribute_kind {
  NABLA_ATTRIBUTE_LIST,    /* array<i64: ...>                  */
  NABLA_ATTRIBUTE_I64,     /* values[0]                        */
  NABLA_ATTRIBUTE_I32,     /* values[0], of an enumeration     */
  NABLA_ATTRIBUTE_INDEX,   /* values[0]                        */
  NABLA_ATTRIBUTE_UNIT,    /* there, or not                    */
  NABLA_ATTRIBUTE_F64,     /* `number`                         */
  NABLA_ATTRIBUTE_ELEMENT, /* `number` or values[0] in the dtype of `type` */
  NABLA_ATTRIBUTE_DENSE,   /* the elements of `type`           */
  NABLA_ATTRIBUTE_SIZES,   /* array<i32: ...>                  */
} nabla_attribute_kind;

/* An attribute of an operation that is recorded. */
typedef struct nabla_recorded_attribute {
  const char *key;
  nabla_attribute_kind kind;
  uint32_t count;
  const int64_t *values;
  double number;
  const nabla_dense *type;
} nabla_recorded_attribute;

/* The largest number of attributes of an operation. */
#define NABLA_MAX_ATTRIBUTES 12

/* An operation to record. */
typedef struct nabla_recording {
  const char *op; /* "nabla.add" */
  uint32_t operand_count;
  const nabla_array_type *const *operands;
  uint32_t attribute_count;
  const nabla_recorded_attribute *attributes;
  const nabla_array_type *result; /* NULL: inferred */
} nabla_recording;

/* An MLIR context with the kinds of operations that were recorded in it. */
typedef struct nabla_recorder nabla_recorder;

NABLA_MUST_USE nabla_status nabla_recorder_create(
    const nabla_allocator *allocator, nabla_recorder **out, nabla_diag *diag);
void nabla_recorder_destroy(nabla_recorder *recorder);
MlirContext nabla_recorder_context(const nabla_recorder *recorder);

/* Counts the nodes that refer to kinds of the recorder. */
void nabla_recorder_count(nabla_recorder *recorder, int change);
uint64_t nabla_recorder_pending(const nabla_recorder *recorder);
/* A number that no earlier walk over these nodes had. */
uint64_t nabla_recorder_walk(nabla_recorder *recorder);

/* Returns the kind in `out`, which lives as long as a node refers to it: a
 * context to which no node refers is made anew when it has become large.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  operands or attributes that do not fit: the
 *                                 message of inference or of the verifier
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status
nabla_recorder_find(nabla_recorder *recorder, const nabla_recording *recording,
                    const nabla_recorded **out, nabla_diag *diag);

/* A kind that is not one operation with attributes: it has regions, or calls a
 * function. */
typedef struct nabla_built {
  const void *key; /* bytes that tell kinds apart */
  size_t key_size;
  uint32_t operand_count, direct_count;
  const nabla_array_type *const *operands; /* `direct_count` */
  /* Makes the operation before `before`, of these operands. Null: an error that
   * was reported to MLIR. */
  MlirOperation (*build)(void *self, MlirOperation before,
                         const MlirValue *operands);
  void *self;
} nabla_built;

/* As nabla_recorder_find. */
NABLA_MUST_USE nabla_status
nabla_recorder_find_built(nabla_recorder *recorder, const nabla_built *built,
                          const nabla_recorded **out, nabla_diag *diag);

/* The module in which functions are that operations of the recorder call. */
MlirModule nabla_recorder_module(const nabla_recorder *recorder);

/* Reads the text of the type of a packed array. */
NABLA_MUST_USE nabla_status nabla_recorder_parse(nabla_recorder *recorder,
                                                 const char *text,
                                                 nabla_array_type *out,
                                                 nabla_diag *diag);

/* The tensor type of a dtype and shape; null for a dtype that programs do not
 * have. */
MlirType nabla_recorder_type(MlirContext context, const nabla_array_type *type);

#endif
