/* The nabla dialect from C: the hooks that Dialect.cpp calls, and the functions
 * that it defines. camelCase marks the border to MLIR. */
#ifndef NABLA_DIALECT_DIALECT_H
#define NABLA_DIALECT_DIALECT_H

#include <mlir-c/IR.h>
#include <mlir-c/Rewrite.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Nabla, nabla);

/* Registers every upstream dialect, this one, and all passes and pipelines. */
void nablaRegisterEverything(MlirDialectRegistry registry);

/* An encoding attribute: a name and a canonical dictionary of parameters.
 * Shardings (dialect/shard/sharding.h) are attributes of the same class, and no
 * encodings. The name of another attribute is empty. */
bool nablaAttributeIsAEncoding(MlirAttribute attribute);
MlirAttribute nablaEncodingAttrGet(MlirContext context, MlirStringRef name,
                                   MlirAttribute parameters);
MlirStringRef nablaEncodingAttrParts(MlirAttribute attribute,
                                     MlirAttribute *outParameters);

/* Largest rank of an array: fixed arrays have this size. */
#define NABLA_MAX_RANK 16

/* Largest depth of encodings inside encodings. */
#define NABLA_MAX_NESTING 8

/* An implicit type as MLIR stores it. `view` is empty for the identity view;
 * otherwise it has the storage's rank and shape, a stride for each dimension,
 * and the offset. */
typedef struct nablaImplicitType {
  intptr_t rank, viewSize;
  const int64_t *shape, *view;
  MlirType elementType;
  MlirAttribute encoding;
} nablaImplicitType;

/* An implicit type with its view decoded, as the C code uses it. */
typedef struct nablaImplicit {
  intptr_t rank;
  int64_t shape[NABLA_MAX_RANK];
  MlirType elementType;
  MlirAttribute encoding;
  intptr_t storageRank; /* -1: the identity view; storage is `shape` */
  int64_t storage[NABLA_MAX_RANK];
  int64_t strides[NABLA_MAX_RANK]; /* `rank` strides; set for every view but the
                                    * identity */
  int64_t offset;
} nablaImplicit;

bool nablaTypeIsAImplicit(MlirType type);
nablaImplicitType nablaImplicitTypeStored(MlirType type);
MlirType nablaImplicitTypeGet(MlirContext context,
                              const nablaImplicitType *stored);

/* Defined in C (implicit.c). */
nablaImplicit nablaImplicitTypeParts(MlirType type);

/* Hooks, defined in C. Messages are written to `message`, NUL-terminated. */
#define NABLA_MESSAGE_SIZE 256
bool nablaHookEncoding(MlirContext context, MlirStringRef name,
                       MlirAttribute parameters, MlirAttribute *outParameters,
                       char message[NABLA_MESSAGE_SIZE]);
void nablaHookEncodingPrint(MlirAttribute attribute, MlirStringCallback print,
                            void *self);
void nablaHookImplicitPrint(MlirType type, MlirStringCallback print,
                            void *self);
bool nablaHookImplicitVerify(const nablaImplicitType *stored,
                             char message[NABLA_MESSAGE_SIZE]);
/* Returns the canonical type among those that mean the same as `stored`, which
 * has been verified. */
MlirType nablaHookImplicitCanonical(MlirContext context,
                                    const nablaImplicitType *stored);
/* A key in the assembly of an operation: `name = NUMBER`, or `name = [NUMBER,
 * ...]` for a list. An optional key without a value is not printed. */
typedef struct nablaKey {
  const char *name;
  bool isList, isOptional;
} nablaKey;
/* Prints ` name = value`; `value` may be null. */
void nablaHookKeyPrint(const nablaKey *key, MlirAttribute value,
                       MlirStringCallback print, void *self);
MlirLogicalResult nablaVerifyOp(MlirOperation op);
/* Simplifies a cond, while or scan; returns false if it changed nothing. */
bool nablaFoldControl(MlirOperation op, MlirRewriterBase rewriter);
/* Returns the branch that a cond with `count` branches takes for a constant
 * selector; -1 if the selector is not constant (null). */
intptr_t nablaCondChoice(MlirAttribute selector, intptr_t count);

typedef struct nablaInference {
  MlirStringRef op;
  MlirContext context;
  MlirLocation location;
  intptr_t operandCount;
  const MlirValue *operands;
  MlirAttribute attributes; /* dictionary */
} nablaInference;
/* Largest number of operands, and of results, of an op. */
#define NABLA_MAX_OPERANDS 64
#define NABLA_MAX_RESULTS  64
MlirLogicalResult nablaInferOp(const nablaInference *in,
                               MlirType types[NABLA_MAX_RESULTS],
                               intptr_t *outCount);

#ifdef __cplusplus
}
#endif

#endif
