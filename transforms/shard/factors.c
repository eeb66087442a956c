/* See factors.h. Where an operation has its factors from, and layouts of arrays
 * from those of factors. */
#include "transforms/shard/factors.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/ops.h"
#include "transforms/shard/rules.h"

/* ---- building ---- */

uint8_t nabla_factor_add(nabla_factors *f, nabla_factor_kind kind,
                         int64_t size) {
  if (f->count == NABLA_MAX_FACTORS) return NABLA_MAX_FACTORS;
  f->all[f->count] = (nabla_factor){.kind = kind, .size = size};
  return (uint8_t)f->count++;
}

static nabla_factor_array *add_array(nabla_factors *f, MlirOperation op,
                                     bool is_result, intptr_t index) {
  if (f->array_count == NABLA_FACTOR_ARRAYS) return NULL;
  nabla_factor_array *a = &f->arrays[f->array_count++];
  memset(a, 0, sizeof *a);
  a->is_result = is_result;
  a->index = index;
  a->value = is_result ? mlirOperationGetResult(op, index)
                       : mlirOperationGetOperand(op, index);
  a->rank = nabla_array_rank(mlirValueGetType(a->value));
  return a;
}

bool nabla_factors_arrays(MlirOperation op, nabla_factors *f) {
  memset(f, 0, sizeof *f);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nabla_layout_takes(nabla_operand_type(op, i)) &&
        !add_array(f, op, false, i))
      return false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!nabla_layout_takes(nabla_result_type(op, i)) ||
        !add_array(f, op, true, i))
      return false;
  return mlirOperationGetNumResults(op) > 0;
}

void nabla_factor_give(nabla_factor_array *a, intptr_t dim, uint8_t factor) {
  nabla_factor_dim *d = &a->dims[dim];
  if (factor < NABLA_MAX_FACTORS && d->count < NABLA_FACTORS_OF_DIM)
    d->at[d->count++] = factor;
}

int64_t nabla_factor_size_of(const nabla_factor_array *a, intptr_t dim) {
  return nabla_array_dim(mlirValueGetType(a->value), dim);
}

nabla_factor_array *nabla_factor_result(nabla_factors *f) {
  return &f->arrays[f->array_count - 1];
}

nabla_factor_array *nabla_factor_array_of(nabla_factors *f, bool is_result,
                                          intptr_t index) {
  for (uint32_t i = 0; i < f->array_count; i++)
    if (f->arrays[i].is_result == is_result && f->arrays[i].index == index)
      return &f->arrays[i];
  return NULL;
}

uint8_t nabla_factor_share(nabla_factors *f, nabla_factor_kind kind,
                           nabla_factor_array *a, intptr_t dim,
                           nabla_factor_array *b, intptr_t other) {
  const uint8_t factor =
      nabla_factor_add(f, kind, nabla_factor_size_of(a, dim));
  nabla_factor_give(a, dim, factor);
  if (b) nabla_factor_give(b, other, factor);
  return factor;
}

bool nabla_dims_have(intptr_t count, const int64_t *list, intptr_t dim) {
  for (intptr_t i = 0; i < count; i++)
    if (list[i] == dim) return true;
  return false;
}

/* ---- words ---- */

/* All arrays have one shape, but for those of rank 0. */
bool nabla_factors_elementwise(MlirOperation op, nabla_factors *f) {
  nabla_factor_array *y = nabla_factor_result(f);
  const bool divides = nabla_is(op, "nabla.div") || nabla_is(op, "nabla.mod");
  for (intptr_t d = 0; d < y->rank; d++) {
    const uint8_t factor =
        nabla_factor_add(f, NABLA_FACTOR_PASS, nabla_factor_size_of(y, d));
    if (factor == NABLA_MAX_FACTORS) return false;
    /* integers: padding would be divided by 0 */
    f->all[factor].is_even = divides;
    for (uint32_t i = 0; i < f->array_count; i++)
      if (f->arrays[i].rank == y->rank)
        nabla_factor_give(&f->arrays[i], d, factor);
  }
  for (uint32_t i = 0; i < f->array_count; i++)
    if (f->arrays[i].rank && f->arrays[i].rank != y->rank) return false;
  return true;
}

/* All arrays have one rank, and sizes that differ along `dim` or `dims` alone,
 * where elements move. */
bool nabla_factors_dims(MlirOperation op, nabla_factors *f) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_factor_array *y = nabla_factor_result(f);
  intptr_t count = nabla_op_integers(op, "dims", dims);
  if (!count) dims[count++] = nabla_op_integer(op, "dim", -1);
  for (intptr_t d = 0; d < y->rank; d++) {
    const bool moved = nabla_dims_have(count, dims, d);
    for (uint32_t i = 0; i < f->array_count; i++)
      if (f->arrays[i].rank != y->rank) return false;
    const uint8_t factor =
        nabla_factor_add(f, moved ? NABLA_FACTOR_MOVED : NABLA_FACTOR_PASS,
                         nabla_factor_size_of(y, d));
    for (uint32_t i = 0; i < f->array_count; i++)
      if (!moved ||
          nabla_factor_size_of(&f->arrays[i], d) == nabla_factor_size_of(y, d))
        nabla_factor_give(&f->arrays[i], d, factor);
  }
  return true;
}

/* ---- reading ---- */

typedef bool (*rule)(MlirOperation op, nabla_factors *f);

static const struct {
  const char *op;
  rule own;
} rules[] = {
#define OP(id, columns) {.op = "nabla." #id, columns},
#define SHARD_BY(name)  .own = nabla_factors_##name,
#include "dialect/ops.def"
};

static rule rule_of(MlirOperation op, const nabla_op_row *row) {
  if (row->shard == NABLA_SHARD_elementwise) return nabla_factors_elementwise;
  if (row->shard == NABLA_SHARD_dims) return nabla_factors_dims;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].own && nabla_is(op, rules[i].op)) return rules[i].own;
  return NULL;
}

/* A factor of an array whose size is not known is not known. */
static void find_dynamic(nabla_factors *f) {
  for (uint32_t a = 0; a < f->array_count; a++)
    for (intptr_t d = 0; d < f->arrays[a].rank; d++)
      for (uint8_t i = 0; i < f->arrays[a].dims[d].count; i++)
        if (nabla_is_dynamic(nabla_factor_size_of(&f->arrays[a], d)))
          f->all[f->arrays[a].dims[d].at[i]].size =
              nabla_factor_size_of(&f->arrays[a], d);
}

/* Whether scales are packed by the operation: those of pieces would be others.
 */
static bool packs_scales(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!nabla_layout_may_decode(mlirOperationGetResult(op, i))) return true;
  return false;
}

bool nabla_op_factors(MlirOperation op, nabla_factors *out) {
  const nabla_op_row *row = nabla_op_find(op);
  const rule read = row ? rule_of(op, row) : NULL;
  if (!read || mlirOperationGetNumRegions(op) || packs_scales(op) ||
      !nabla_factors_arrays(op, out) || !read(op, out) ||
      out->count >= NABLA_MAX_FACTORS)
    return false;
  find_dynamic(out);
  return true;
}

const char *nabla_op_undivided(MlirOperation op) {
  static const struct {
    const char *op, *why;
  } reasons[] = {
#define UNDIVIDED(op, why) {"nabla." #op, why},
#include "transforms/shard/undivided.def"
#undef UNDIVIDED
  };
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (nabla_is(op, reasons[i].op)) return reasons[i].why;
  return NULL;
}

/* ---- layouts ---- */

/* Whether dimension `d` of `array` is the factor alone, and divided by `n` into
 * pieces of one size, or padded. */
static bool dim_takes(const nabla_factor_array *array, intptr_t d,
                      const nabla_factor *factor, int64_t n) {
  const int64_t size = nabla_factor_size_of(array, d);
  if (array->dims[d].count > 1) return false;
  if (nabla_is_dynamic(size)) return true;
  if (!nabla_is_dynamic(factor->size) && factor->size != size) return false;
  if (size % n == 0) return true;
  return !factor->is_even && !nabla_is_dynamic(factor->size) &&
         !nablaTypeIsAImplicit(mlirValueGetType(array->value));
}

bool nabla_factor_takes(const nabla_grid *shard, const nabla_factors *factors,
                        uint32_t factor, const nabla_atom_list *list) {
  const nabla_factor *it = &factors->all[factor];
  const int64_t n = nabla_atoms_product(&shard->atoms, list);
  if (n == 1) return true;
  if (!nabla_is_dynamic(it->size) && it->size % n == 0) return true;
  for (uint32_t a = 0; a < factors->array_count; a++)
    for (intptr_t d = 0; d < factors->arrays[a].rank; d++)
      for (uint8_t i = 0; i < factors->arrays[a].dims[d].count; i++)
        if (factors->arrays[a].dims[d].at[i] == factor &&
            !dim_takes(&factors->arrays[a], d, it, n))
          return false;
  return true;
}

/* The atoms of a dimension that is one factor. */
static bool split_one(const nabla_grid *shard, const nabla_factors *factors,
                      uint8_t factor, const nabla_atom_list *atoms,
                      nabla_atom_list *out) {
  *out = *atoms;
  return nabla_factor_takes(shard, factors, factor, atoms);
}

bool nabla_factors_split(const nabla_grid *shard, const nabla_factors *factors,
                         const nabla_factor_array *array,
                         const nabla_division *layout,
                         nabla_atom_list out[NABLA_MAX_FACTORS]) {
  for (uint32_t i = 0; i < factors->count; i++) out[i].count = 0;
  for (intptr_t d = 0; d < array->rank; d++) {
    const nabla_factor_dim *dim = &array->dims[d];
    const nabla_atom_list *atoms = &layout->dims[d];
    uint32_t at = 0;
    if (dim->count == 1 && atoms->count) {
      if (!split_one(shard, factors, dim->at[0], atoms, &out[dim->at[0]]))
        return false;
      continue;
    }
    for (uint8_t i = 0; i < dim->count && at < atoms->count; i++) {
      int64_t left = factors->all[dim->at[i]].size;
      nabla_atom_list *list = &out[dim->at[i]];
      for (; at < atoms->count && left > 0; at++) {
        const int64_t size = shard->atoms.size[atoms->at[at]];
        if (left % size) break;
        left /= size;
        list->at[list->count++] = atoms->at[at];
      }
      if (left != 1) break; /* the next factor begins behind a whole one */
    }
    if (at < atoms->count) return false;
  }
  return true;
}

nabla_division nabla_factors_join(
    const nabla_grid *shard, const nabla_factors *factors,
    const nabla_factor_array *array,
    const nabla_atom_list lists[NABLA_MAX_FACTORS]) {
  nabla_division layout = nabla_layout_whole(mlirValueGetType(array->value));
  for (intptr_t d = 0; d < array->rank; d++) {
    const nabla_factor_dim *dim = &array->dims[d];
    nabla_atom_list *out = &layout.dims[d];
    for (uint8_t i = 0; i < dim->count; i++) {
      const nabla_atom_list *list = &lists[dim->at[i]];
      for (uint32_t k = 0; k < list->count && out->count < NABLA_MAX_ATOMS; k++)
        out->at[out->count++] = list->at[k];
      if (nabla_atoms_product(&shard->atoms, list) !=
          factors->all[dim->at[i]].size)
        break;
    }
  }
  return layout;
}
