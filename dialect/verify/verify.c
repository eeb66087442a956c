/* What inference does not see: ops whose result type is written. One function
 * for each name in the column VERIFY of ops.def. */
#include "dialect/verify/verify.h"

#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/infer/infer_math.h"

static MlirType operand(MlirOperation op, intptr_t index) {
  return mlirValueGetType(mlirOperationGetOperand(op, index));
}
static MlirType result(MlirOperation op) {
  return mlirValueGetType(mlirOperationGetResult(op, 0));
}
static MlirStringRef name_of(MlirOperation op) {
  return mlirIdentifierStr(mlirOperationGetName(op));
}
static MlirLogicalResult good(void) { return mlirLogicalResultSuccess(); }

#define ERROR(op, ...) NABLA_VERIFY_ERROR(op, __VA_ARGS__)

typedef struct shape {
  intptr_t rank;
  int64_t dims[NABLA_MAX_RANK];
} shape;

/* false for more dimensions than an array may have */
static bool shape_of(MlirType type, shape *out) {
  out->rank = nabla_array_rank(type);
  if (out->rank > NABLA_MAX_RANK) return false;
  for (intptr_t i = 0; i < out->rank; i++)
    out->dims[i] = nabla_array_dim(type, i);
  return true;
}

static nabla_shape_text text_of(const shape *s) {
  return nabla_shape_format(s->rank, s->dims);
}

/* What a lora is an update of in the end; another encoding as it is. */
static nabla_encoding_kind base_kind(MlirType type) {
  nabla_encoding_info info = nabla_implicit_encoding(type);
  while (info.kind == NABLA_KIND_LORA) info = nabla_encoding_read(info.base);
  return info.kind;
}

static MlirLogicalResult verify_quantize(MlirOperation op) {
  MlirType to = result(op), dense = nabla_dense_type(to);
  if (!mlirTypeEqual(dense, operand(op, 0)))
    return ERROR(op, "the result describes another array than the operand");
  if (nablaImplicitTypeParts(to).storageRank >= 0)
    return ERROR(op, "the result is no view: quantize, then take the view");
  if (nabla_implicit_encoding(to).kind == NABLA_KIND_CUSTOM)
    return ERROR(op,
                 "a custom encoding says how to decode only: make the "
                 "components, and nabla.pack them");
  if (base_kind(to) == NABLA_KIND_GGML)
    return ERROR(op,
                 "programs decode the blocks of GGUF files only: make them "
                 "with nabla_ggml_encode (nabla/ggml.h; in Python "
                 "quantize_array), and nabla.pack them");
  if (!nabla_encoding_is_stored(nabla_implicit_encoding(to).kind))
    return ERROR(op, "cannot encode into a splat or an identity");
  return good();
}

/* The text of a type, cut where it is longer. */
typedef struct type_text {
  char data[240];
  size_t used;
} type_text;

static void add_type_text(MlirStringRef part, void *self) {
  type_text *text = self;
  for (size_t i = 0; i < part.length && text->used + 1 < sizeof text->data; i++)
    text->data[text->used++] = part.data[i];
}

static MlirLogicalResult verify_pack(MlirOperation op) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(result(op), parts);
  if (mlirOperationGetNumOperands(op) != (intptr_t)count)
    return ERROR(op, "the encoding has %u components, not %d", count,
                 (int)mlirOperationGetNumOperands(op));
  for (uint32_t i = 0; i < count; i++) {
    type_text text = {{0}, 0};
    if (mlirTypeEqual(operand(op, (intptr_t)i), parts[i].type)) continue;
    mlirTypePrint(parts[i].type, add_type_text, &text);
    return ERROR(op, "component '%s' is %s", parts[i].name, text.data);
  }
  return good();
}

static MlirLogicalResult check_elements(MlirOperation op, MlirType from,
                                        MlirType to) {
  if (mlirTypeEqual(nabla_array_element(from), nabla_array_element(to)))
    return good();
  return ERROR(op, "keeps the element type");
}

/* An implicit result must be the view that the op makes of its operand. */
static MlirLogicalResult check_view(MlirOperation op, MlirType to,
                                    const nabla_strided *view) {
  MlirType from = operand(op, 0);
  if (!nablaTypeIsAImplicit(from))
    return ERROR(op, "an implicit result needs an implicit operand");
  if (!view)
    return ERROR(op,
                 "no strides express this reshape of the operand: write the "
                 "tensor type as result, it is materialized");
  if (!mlirTypeEqual(nabla_implicit_with_view(from, view), to))
    return ERROR(op, "the result type is not this view of the operand");
  return good();
}

/* Elements of the static dimensions, UINT64_MAX for too many, and whether all
 * are. */
static bool static_elements(const shape *s, uint64_t *out) {
  *out = 1;
  bool all = true, empty = false, large = false;
  for (intptr_t i = 0; i < s->rank && !large; i++) {
    if (nabla_is_dynamic(s->dims[i]))
      all = false;
    else if (s->dims[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(*out, (uint64_t)s->dims[i], out) ||
             *out >> 62)
      large = true;
  }
  if (large) *out = UINT64_MAX;
  if (empty) *out = 0;
  return all;
}

static MlirLogicalResult verify_reshape(MlirOperation op) {
  MlirType from = operand(op, 0), to = result(op);
  shape a, b;
  uint64_t have, want;
  if (!shape_of(from, &a) || !shape_of(to, &b))
    return ERROR(op, "arrays have at most %d dimensions", NABLA_MAX_RANK);
  bool all = static_elements(&a, &have);
  all = static_elements(&b, &want) && all;
  if (have == UINT64_MAX || want == UINT64_MAX)
    return ERROR(op, "has a tensor of more than 2^62 elements");
  if (all && have != want)
    return ERROR(op, "%s has %llu elements, %s has %llu", text_of(&a).data,
                 (unsigned long long)have, text_of(&b).data,
                 (unsigned long long)want);
  if (mlirLogicalResultIsFailure(check_elements(op, from, to)) ||
      mlirLogicalResultIsFailure(nabla_verify_sizes(op, 1, true)))
    return mlirLogicalResultFailure();
  if (!nablaTypeIsAImplicit(to)) return good();
  nabla_strided view;
  bool known = nablaTypeIsAImplicit(from) &&
               nabla_implicit_reshape(from, b.rank, b.dims, &view);
  return check_view(op, to, known ? &view : NULL);
}

/* dims of a broadcast_in_dim name each dimension of the operand once, and fit
 * those of the result. */
static MlirLogicalResult check_broadcast(MlirOperation op, const shape *from,
                                         const shape *to, const int64_t *dims,
                                         intptr_t count) {
  if (count != from->rank || !nabla_dims_valid(count, dims, to->rank))
    return ERROR(op,
                 "dims name, for each of the %d dimensions of the operand, "
                 "another one of the %d of the result",
                 (int)from->rank, (int)to->rank);
  for (intptr_t i = 0; i < count; i++) {
    int64_t a = from->dims[i], b = to->dims[dims[i]];
    if (a == 1 || nabla_dims_compatible(a, b)) continue;
    return ERROR(op, "%s does not broadcast to %s along dimension %d",
                 text_of(from).data, text_of(to).data, (int)dims[i]);
  }
  return good();
}

static MlirLogicalResult verify_broadcast(MlirOperation op) {
  MlirType from = operand(op, 0), to = result(op);
  shape a, b;
  int64_t dims[NABLA_MAX_RANK];
  if (!shape_of(from, &a) || !shape_of(to, &b))
    return ERROR(op, "arrays have at most %d dimensions", NABLA_MAX_RANK);
  intptr_t count = nabla_op_integers(op, "dims", dims);
  if (mlirLogicalResultIsFailure(check_elements(op, from, to)) ||
      mlirLogicalResultIsFailure(check_broadcast(op, &a, &b, dims, count)) ||
      mlirLogicalResultIsFailure(nabla_verify_sizes(op, 1, false)))
    return mlirLogicalResultFailure();
  if (!nablaTypeIsAImplicit(to)) return good();
  if (nablaTypeIsAImplicit(from) && !nabla_implicit_has_views(from))
    return ERROR(op,
                 "no strides express this of an identity: write the tensor "
                 "type as result, it is materialized");
  nabla_strided view = {b.rank, {0}, {0}, 0};
  if (nablaTypeIsAImplicit(from)) {
    nabla_strided old = nabla_implicit_strided(from);
    view.offset = old.offset;
    memcpy(view.shape, b.dims, sizeof view.shape);
    for (intptr_t i = 0; i < count; i++)
      view.strides[dims[i]] = a.dims[i] == b.dims[dims[i]] ? old.strides[i] : 0;
  }
  return check_view(op, to, &view);
}

static const struct {
  const char *name;
  nabla_verifier *verify;
} rows[] = {
#define OP(id, columns) {.name = "nabla." #id, columns},
#define VERIFY(word)    .verify = verify_##word,
#include "dialect/ops.def"
};

MlirLogicalResult nablaVerifyOp(MlirOperation op) {
  MlirStringRef name = name_of(op);
  bool has_operand = mlirOperationGetNumOperands(op) > 0;
  if (nabla_text_equals(name, "nabla.mesh")) return verify_mesh(op);
  if (mlirLogicalResultIsFailure(nabla_verify_shardings(op)))
    return mlirLogicalResultFailure();
  if (!has_operand && mlirOperationGetNumResults(op) == 0) return good();
  if (!nabla_types_check(mlirOperationGetLocation(op), name,
                         has_operand ? operand(op, 0) : result(op)))
    return mlirLogicalResultFailure();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].verify && nabla_text_equals(name, rows[i].name))
      return rows[i].verify(op);
  return good();
}
