/* See the header. */
#include "transforms/memory/open_parts.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/abi/argument_table.h"
#include "transforms/abi/part_ops.h"

#define LIKELY 64 /* elements of a dimension that is not known */

static MlirType word_type(MlirOperation before) {
  return mlirIntegerTypeGet(nabla_op_context(before), 64);
}

static MlirValue binary(MlirOperation before, const char *name, MlirValue a,
                        MlirValue b) {
  const MlirType type = mlirValueGetType(a);
  const MlirValue operands[] = {a, b};
  nabla_op_spec spec = {name, 2, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

static MlirValue compare(MlirOperation before, int64_t predicate, MlirValue a,
                         MlirValue b) {
  MlirContext context = nabla_op_context(before);
  const MlirType type = mlirIntegerTypeGet(context, 1);
  const MlirValue operands[] = {a, b};
  MlirNamedAttribute how = nabla_named(
      context, "predicate",
      mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), predicate));
  nabla_op_spec spec = {"arith.cmpi", 2, operands, 1, &type, 1, &how};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

static MlirValue choose(MlirOperation before, MlirValue condition, MlirValue a,
                        MlirValue b) {
  const MlirType type = mlirValueGetType(a);
  const MlirValue operands[] = {condition, a, b};
  nabla_op_spec spec = {"arith.select", 3, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

enum { NOT_EQUAL = 1, UNSIGNED_AT_MOST = 7 }; /* arith.cmpi's predicates */

/* The product, or 2^64 - 1 where it wraps. */
static MlirValue multiply(MlirOperation before, MlirValue a, MlirValue b) {
  const MlirType types[] = {word_type(before), word_type(before)};
  const MlirValue operands[] = {a, b};
  nabla_op_spec spec = {"arith.mului_extended", 2, operands, 2, types, 0, NULL};
  MlirOperation product = nabla_op_create(before, &spec);
  MlirValue wraps =
      compare(before, NOT_EQUAL, mlirOperationGetResult(product, 1),
              nabla_part_word(before, 0));
  return choose(before, wraps, nabla_part_word(before, UINT64_MAX),
                mlirOperationGetResult(product, 0));
}

/* The bytes of all static dimensions, 2^64 - 1 where they overflow. */
static uint64_t static_part(MlirType type) {
  uint64_t bytes = nabla_part_element(type);
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    if (!mlirShapedTypeIsDynamicDim(type, i) &&
        __builtin_mul_overflow(
            bytes, (uint64_t)mlirShapedTypeGetDimSize(type, i), &bytes))
      return UINT64_MAX;
  return bytes;
}

MlirValue nabla_open_bytes(MlirOperation before, MlirType type,
                           const MlirValue *dims) {
  MlirValue bytes = nabla_part_word(before, static_part(type));
  intptr_t open = 0;
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    if (mlirShapedTypeIsDynamicDim(type, i))
      bytes = multiply(before, bytes,
                       nabla_table_op(before, "arith.index_cast", dims[open++],
                                      word_type(before)));
  return bytes;
}

uint64_t nabla_open_guess(MlirType type) {
  uint64_t bytes = static_part(type);
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    if (mlirShapedTypeIsDynamicDim(type, i) && bytes <= NABLA_LAYOUT_MAX)
      bytes *= LIKELY;
  return bytes;
}

/* Rounds up what has a place in a block; 0 for the rest. */
static MlirValue room_of(MlirOperation before, MlirValue bytes) {
  MlirValue fits = compare(before, UNSIGNED_AT_MOST, bytes,
                           nabla_part_word(before, NABLA_LAYOUT_MAX));
  MlirValue some = choose(before, fits, bytes, nabla_part_word(before, 0));
  MlirValue up = binary(before, "arith.addi", some,
                        nabla_part_word(before, NABLA_LAYOUT_ALIGNMENT - 1));
  return binary(
      before, "arith.andi", up,
      nabla_part_word(before, ~(uint64_t)(NABLA_LAYOUT_ALIGNMENT - 1)));
}

static MlirValue end_of(MlirOperation before, const nabla_open_words *words,
                        uint64_t more) {
  MlirValue end = binary(before, "arith.addi", words->offset, words->room);
  return more ? binary(before, "arith.addi", end, nabla_part_word(before, more))
              : end;
}

MlirValue nabla_open_parts_place(MlirOperation before,
                                 const nabla_open_part *parts,
                                 nabla_open_words *words, size_t count,
                                 const size_t *order, uint64_t fixed,
                                 uint64_t more) {
  MlirValue total = nabla_part_word(before, fixed);
  for (size_t i = 0; i < count; i++) {
    const nabla_open_part *part = &parts[order[i]];
    nabla_open_words *own = &words[order[i]];
    own->room = room_of(before, own->bytes);
    own->offset = nabla_part_word(before, part->floor);
    for (size_t k = 0; k < part->below_count; k++)
      own->offset = binary(before, "arith.maxui", own->offset,
                           end_of(before, &words[part->below[k]], more));
    total = binary(before, "arith.maxui", total, end_of(before, own, more));
  }
  return total;
}
