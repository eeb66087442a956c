/* Verifiers of operations with regions; see verify.h. They come before those of
 * the interfaces, whose messages speak of control flow edges. */
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "dialect/control.h"
#include "dialect/verify/verify.h"

#define ERROR(op, ...) NABLA_VERIFY_ERROR(op, __VA_ARGS__)

static MlirLogicalResult good(void) { return mlirLogicalResultSuccess(); }
static bool failed(MlirLogicalResult result) {
  return mlirLogicalResultIsFailure(result);
}
static MlirType operand(MlirOperation op, intptr_t index) {
  return mlirValueGetType(mlirOperationGetOperand(op, index));
}
static MlirType result(MlirOperation op, intptr_t index) {
  return mlirValueGetType(mlirOperationGetResult(op, index));
}
static MlirType argument(MlirBlock block, intptr_t index) {
  return mlirValueGetType(mlirBlockGetArgument(block, index));
}

/* A type in a message: what does not fit ends in "...". */
typedef struct type_text {
  char data[160];
  size_t length;
} type_text;

static void append(MlirStringRef part, void *self) {
  type_text *text = self;
  size_t left = sizeof text->data - text->length;
  int length = snprintf(text->data + text->length, left, "%.*s",
                        (int)part.length, part.data);
  text->length += (size_t)length;
  if (text->length >= sizeof text->data) {
    text->length = sizeof text->data - 1;
    (void)snprintf(text->data + text->length - 3, 4, "...");
  }
}

static type_text text_of(MlirType type) {
  type_text text = {{0}, 0};
  mlirTypePrint(type, append, &text);
  return text;
}

/* The op that ends `region`, which is `name`; null, reported, when it is
 * not. */
static MlirOperation end_of(MlirOperation op, intptr_t region,
                            const char *name) {
  MlirOperation end = nabla_block_end(nabla_region_block(op, region));
  if (!mlirOperationIsNull(end) &&
      nabla_text_equals(mlirIdentifierStr(mlirOperationGetName(end)), name))
    return end;
  ERROR(op, "region #%d ends without '%s'", (int)region, name);
  return (MlirOperation){NULL};
}

/* Is `dense` the tensor that `packed` decodes to? */
static bool is_decoded(MlirType packed, MlirType dense) {
  return nablaTypeIsAImplicit(packed) &&
         mlirTypeEqual(nabla_dense_type(packed), dense);
}

/* Two types at one place of a list are the same. `what`: "yields"; `where`:
 * "result". */
static MlirLogicalResult same(MlirOperation op, intptr_t region,
                              const char *what, MlirType have,
                              const char *where, intptr_t index,
                              MlirType want) {
  if (mlirTypeEqual(have, want)) return good();
  if (is_decoded(have, want) || is_decoded(want, have))
    return ERROR(op,
                 "region #%d %s %s as %s #%d, which is %s: nabla.materialize "
                 "the packed one",
                 (int)region, what, text_of(have).data, where, (int)index,
                 text_of(want).data);
  return ERROR(op, "region #%d %s %s as %s #%d, which is %s", (int)region, what,
               text_of(have).data, where, (int)index, text_of(want).data);
}

static MlirLogicalResult same_count(MlirOperation op, intptr_t region,
                                    const char *what, intptr_t have,
                                    const char *where, intptr_t want) {
  if (have == want) return good();
  return ERROR(op, "region #%d %s %d values, not %d: one for each %s",
               (int)region, what, (int)have, (int)want, where);
}

/* Operands of `end` from `first` on are the results of `op`. */
static MlirLogicalResult check_results(MlirOperation op, intptr_t region,
                                       MlirOperation end, intptr_t first,
                                       const char *where) {
  intptr_t count = mlirOperationGetNumOperands(end) - first;
  if (count < 0) count = 0; /* its own verifier follows */
  if (failed(same_count(op, region, "hands on", count, where,
                        mlirOperationGetNumResults(op))))
    return mlirLogicalResultFailure();
  for (intptr_t i = 0; i < count; i++)
    if (failed(same(op, region, "hands on", operand(end, first + i), where, i,
                    result(op, i))))
      return mlirLogicalResultFailure();
  return good();
}

MlirLogicalResult verify_cond(MlirOperation op) {
  MlirType selector = operand(op, 0);
  if (mlirTypeIsARankedTensor(selector))
    selector = mlirShapedTypeGetElementType(selector);
  intptr_t regions = mlirOperationGetNumRegions(op);
  bool truth =
      mlirTypeIsAInteger(selector) && mlirIntegerTypeGetWidth(selector) == 1;
  if (truth && regions != 2)
    return ERROR(op,
                 "i1 chooses between 2 regions, not %d: choose by index "
                 "among others",
                 (int)regions);
  if (regions == 0) return ERROR(op, "has a region to run");
  for (intptr_t r = 0; r < regions; r++) {
    if (mlirBlockGetNumArguments(nabla_region_block(op, r)))
      return ERROR(op,
                   "region #%d has no arguments: it uses values from outside "
                   "as they are",
                   (int)r);
    MlirOperation end = end_of(op, r, "nabla.yield");
    if (mlirOperationIsNull(end) ||
        failed(check_results(op, r, end, 0, "result")))
      return mlirLogicalResultFailure();
  }
  return good();
}

MlirLogicalResult verify_remat(MlirOperation op) {
  if (mlirBlockGetNumArguments(nabla_region_block(op, 0)))
    return ERROR(op,
                 "region #0 has no arguments: it uses values from outside as "
                 "they are");
  MlirOperation end = end_of(op, 0, "nabla.yield");
  return mlirOperationIsNull(end) ? mlirLogicalResultFailure()
                                  : check_results(op, 0, end, 0, "result");
}

/* Numbers of steps. */
static MlirLogicalResult check_steps(MlirOperation op) {
  if (nabla_op_integer(op, "remat", 1) < 1)
    return ERROR(op, "remat = N keeps every N-th step's carries, N from 1 on");
  if (nabla_op_integer(op, "max_steps", 0) < 0)
    return ERROR(op, "max_steps is a number of steps, from 0 on");
  return good();
}

MlirLogicalResult verify_while(MlirOperation op) {
  if (failed(check_steps(op))) return mlirLogicalResultFailure();
  intptr_t carries = mlirOperationGetNumOperands(op);
  for (intptr_t r = 0; r < 2; r++) {
    MlirBlock block = nabla_region_block(op, r);
    if (failed(same_count(op, r, "takes", mlirBlockGetNumArguments(block),
                          "carry", carries)))
      return mlirLogicalResultFailure();
    for (intptr_t i = 0; i < carries; i++)
      if (failed(same(op, r, "takes", argument(block, i), "carry", i,
                      operand(op, i))))
        return mlirLogicalResultFailure();
    MlirOperation end = end_of(op, r, r ? "nabla.yield" : "nabla.condition");
    if (mlirOperationIsNull(end) ||
        failed(check_results(op, r, end, r ? 0 : 1, "carry")))
      return mlirLogicalResultFailure();
  }
  return good();
}

/* A slice of stacked array `index` (`where`: "input"), which has length
 * `*length` if that is known. */
static MlirLogicalResult check_slice(MlirOperation op, const char *where,
                                     intptr_t index, MlirType whole,
                                     MlirType slice, int64_t *length) {
  nabla_slices slices;
  bool implicit = nablaTypeIsAImplicit(whole);
  if (!implicit && !mlirTypeIsARankedTensor(whole))
    return ERROR(op, "%s #%d is no array to be stacked", where, (int)index);
  if (nabla_array_rank(whole) < 1 || nabla_array_rank(whole) > NABLA_MAX_RANK)
    return ERROR(op, "%s #%d has from 1 to %d dimensions", where, (int)index,
                 NABLA_MAX_RANK);
  int64_t dim = nabla_array_dim(whole, 0);
  if (!nabla_dims_compatible(*length, dim))
    return ERROR(op, "%s #%d has length %lld, others have %lld", where,
                 (int)index, (long long)dim, (long long)*length);
  if (nabla_is_dynamic(*length)) *length = dim;
  bool dense = nabla_slice_is_dense(whole, slice);
  if (implicit && where[0] == 'o') dense = false; /* nothing encodes it */
  bool parts = nabla_slices_find(whole, slice, &slices);
  if (parts && where[0] == 'o' && slices.any_shared)
    return ERROR(op,
                 "%s #%d is %s, whose scales have one offset and one map: "
                 "arrays with their own cannot be stacked",
                 where, (int)index, text_of(whole).data);
  if (dense || parts) return good();
  return ERROR(op, "%s #%d is %s: %s is no slice of it%s", where, (int)index,
               text_of(whole).data, text_of(slice).data,
               implicit ? "; implicit ones have whole blocks, one "
                          "behind the other"
                        : "");
}

static MlirLogicalResult check_carries(const nabla_scan_parts *s,
                                       MlirBlock block, MlirOperation end) {
  for (intptr_t i = 0; i < s->carries; i++) {
    MlirType type = operand(s->op, i);
    if (failed(same(s->op, 0, "takes", argument(block, i), "carry", i, type)) ||
        failed(same(s->op, 0, "hands on", operand(end, i), "carry", i, type)) ||
        failed(same(s->op, 0, "gives", result(s->op, i), "carry", i, type)))
      return mlirLogicalResultFailure();
  }
  return good();
}

/* `?` in the slices that are stacked. */
static intptr_t unknown_sizes(const nabla_scan_parts *s, MlirOperation end) {
  intptr_t count = 0;
  for (intptr_t i = 0; i < s->outputs; i++) {
    MlirType slice = operand(end, s->carries + i);
    for (intptr_t d = 0; d < nabla_array_rank(slice); d++)
      count += nabla_is_dynamic(nabla_array_dim(slice, d));
  }
  return count;
}

static MlirLogicalResult check_counts(const nabla_scan_parts *s,
                                      MlirBlock block, MlirOperation end) {
  if (s->outputs < 0)
    return ERROR(s->op, "gives %d results, not one for each of %d carries",
                 (int)mlirOperationGetNumResults(s->op), (int)s->carries);
  if (s->carries + s->outputs == 0)
    return ERROR(s->op, "needs a carry or an output");
  if (!s->inputs && !s->lengths)
    return ERROR(s->op, "needs an input or a length");
  if (s->inputs && s->lengths)
    return ERROR(s->op, "has the length of its inputs: leave length away");
  if (failed(same_count(s->op, 0, "takes", mlirBlockGetNumArguments(block),
                        "carry and input", s->carries + s->inputs)))
    return mlirLogicalResultFailure();
  return same_count(s->op, 0, "hands on", mlirOperationGetNumOperands(end),
                    "result", s->carries + s->outputs);
}

MlirLogicalResult verify_scan(MlirOperation op) {
  nabla_scan_parts s = nabla_scan_read(op);
  MlirBlock block = nabla_region_block(op, 0);
  MlirOperation end = end_of(op, 0, "nabla.yield");
  if (mlirOperationIsNull(end) || failed(check_steps(op)) ||
      failed(check_counts(&s, block, end)) ||
      failed(check_carries(&s, block, end)))
    return mlirLogicalResultFailure();
  int64_t length = mlirShapedTypeGetDynamicSize();
  for (intptr_t i = 0; i < s.inputs; i++)
    if (failed(check_slice(op, "input", i, operand(op, s.carries + i),
                           argument(block, s.carries + i), &length)))
      return mlirLogicalResultFailure();
  for (intptr_t i = 0; i < s.outputs; i++)
    if (failed(check_slice(op, "output", i, result(op, s.carries + i),
                           operand(end, s.carries + i), &length)))
      return mlirLogicalResultFailure();
  intptr_t unknown = unknown_sizes(&s, end);
  if (unknown != s.sizes)
    return ERROR(op,
                 "slices of outputs have %d sizes that are not known, "
                 "sizes has %d",
                 (int)unknown, (int)s.sizes);
  return good();
}
