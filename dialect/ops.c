/* ops.def as a table; see ops.h. */
#include "dialect/ops.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

static const char *const class_types[] = {
#define TYPES(id, types, what) types,
#include "dialect/encoding/type_classes.def"
#undef TYPES
};

static const struct {
  const char *operations, *bytes;
} costs[] = {
#define COST(id, operations, bytes) {operations, bytes},
#include "dialect/costs.def"
#undef COST
};

static const nabla_op_row rows[] = {
#define OP(id, columns) {.name = "nabla." #id, columns},
#define TYPES(word)     .types = NABLA_TYPES_##word,
#define IMPLICIT(word)  .implicit = NABLA_IMPLICIT_##word,
#define COST(word)      .cost = NABLA_COST_##word,
#define DIFF(word)      .diff = NABLA_DIFF_##word,
#define DIFF_BY(name)   .diff = NABLA_DIFF_own,
#define BATCH(word)     .batch = NABLA_BATCH_##word,
#define SHARD(word)     .shard = NABLA_SHARD_##word,
#define SHARD_BY(name)  .shard = NABLA_SHARD_own,
#include "dialect/ops.def"
};

const nabla_op_row *nabla_op_rows(size_t *out_count) {
  *out_count = sizeof rows / sizeof *rows;
  return rows;
}

const nabla_op_row *nabla_op_named(MlirStringRef name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i].name) == name.length &&
        !memcmp(rows[i].name, name.data, name.length))
      return &rows[i];
  return NULL;
}

/* Of every operation that a pass looks at: most are not of the dialect. */
const nabla_op_row *nabla_op_find(MlirOperation op) {
  static const char dialect[] = "nabla.";
  MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
  if (name.length < strlen(dialect) ||
      memcmp(name.data, dialect, strlen(dialect)) != 0)
    return NULL;
  return nabla_op_named(name);
}

const char *nabla_type_class_types(nabla_type_class types) {
  return class_types[types];
}

const char *nabla_cost_operations(nabla_cost_class cost) {
  return costs[cost].operations;
}

const char *nabla_cost_bytes(nabla_cost_class cost) {
  return costs[cost].bytes;
}

/* The type as it is spelt in IR: "f32", "ui8"; empty for what no array has. */
static void spell(MlirType type, char out[16]) {
  out[0] = 0;
  if (mlirTypeIsABF16(type)) {
    (void)snprintf(out, 16, "bf16");
  } else if (mlirTypeIsAF16(type) || mlirTypeIsAF32(type) ||
             mlirTypeIsAF64(type)) {
    (void)snprintf(out, 16, "f%u", mlirFloatTypeGetWidth(type));
  } else if (mlirTypeIsAInteger(type) && !mlirIntegerTypeIsSigned(type)) {
    (void)snprintf(out, 16, "%si%u", mlirIntegerTypeIsUnsigned(type) ? "u" : "",
                   mlirIntegerTypeGetWidth(type));
  }
}

bool nabla_type_class_has(nabla_type_class types, MlirType element) {
  char name[16];
  spell(element, name);
  size_t length = strlen(name);
  for (const char *at = class_types[types]; *at && length;) {
    size_t word = strcspn(at, " ");
    if (word == length && !memcmp(at, name, length)) return true;
    at += word + (at[word] == ' ');
  }
  return false;
}
