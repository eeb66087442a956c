/* The nabla dialect from C: the hooks that Dialect.cpp calls, and what it
 * gives. camelCase marks the border to MLIR. */
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

/* Adds every upstream dialect, this one, and all passes and pipelines. */
void nablaRegisterEverything(MlirDialectRegistry registry);

/* An encoding attribute: a name and a dictionary of parameters, canonical. */
bool nablaAttributeIsAEncoding(MlirAttribute attribute);
MlirAttribute nablaEncodingAttrGet(MlirContext context, MlirStringRef name,
                                   MlirAttribute parameters);
MlirStringRef nablaEncodingAttrParts(MlirAttribute attribute,
                                     MlirAttribute *outParameters);

/* The most dimensions of an array: arrays on the stack have this size. */
#define NABLA_MAX_RANK 16

/* The most encodings that stand in each other. */
#define NABLA_MAX_NESTING 8

/* An implicit type as it is stored. `view` is empty for the identity, else
 * the storage's rank and shape, a stride for each dimension, and the offset. */
typedef struct nablaImplicitType {
  intptr_t rank, viewSize;
  const int64_t *shape, *view;
  MlirType elementType;
  MlirAttribute encoding;
} nablaImplicitType;

/* The same, read: what the C code works with. */
typedef struct nablaImplicit {
  intptr_t rank;
  int64_t shape[NABLA_MAX_RANK];
  MlirType elementType;
  MlirAttribute encoding;
  intptr_t storageRank; /* -1: the identity view; storage is `shape` */
  int64_t storage[NABLA_MAX_RANK];
  int64_t strides[NABLA_MAX_RANK]; /* `rank` of them; set for every view but
                                      the identity                          */
  int64_t offset;
} nablaImplicit;

bool nablaTypeIsAImplicit(MlirType type);
nablaImplicitType nablaImplicitTypeStored(MlirType type);
MlirType nablaImplicitTypeGet(MlirContext context,
                              const nablaImplicitType *stored);

/* In C (implicit.c). */
nablaImplicit nablaImplicitTypeParts(MlirType type);

/* Hooks, in C. Messages go to `message`, NUL-terminated. */
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
/* The one type that means the same as `stored`, which is verified. */
MlirType nablaHookImplicitCanonical(MlirContext context,
                                    const nablaImplicitType *stored);
/* A key of an operation's assembly: `name = NUMBER`, or `name = [NUMBER, ...]`
 * of a list; one that is optional is not written where it has no value. */
typedef struct nablaKey {
  const char *name;
  bool isList, isOptional;
} nablaKey;
/* Prints ` name = value`; `value` may be null. */
void nablaHookKeyPrint(const nablaKey *key, MlirAttribute value,
                       MlirStringCallback print, void *self);
MlirLogicalResult nablaVerifyOp(MlirOperation op);
/* Simplifies a cond, while or scan; false when nothing was to be done. */
bool nablaFoldControl(MlirOperation op, MlirRewriterBase rewriter);
/* The branch that a cond of `count` takes for a constant selector; -1 when it
 * is not known (null). */
intptr_t nablaCondChoice(MlirAttribute selector, intptr_t count);

typedef struct nablaInference {
  MlirStringRef op;
  MlirContext context;
  MlirLocation location;
  intptr_t operandCount;
  const MlirValue *operands;
  MlirAttribute attributes; /* dictionary */
} nablaInference;
/* The most operands and results of an op. */
#define NABLA_MAX_OPERANDS 64
#define NABLA_MAX_RESULTS  64
MlirLogicalResult nablaInferOp(const nablaInference *in,
                               MlirType types[NABLA_MAX_RESULTS],
                               intptr_t *outCount);

#ifdef __cplusplus
}
#endif

#endif
