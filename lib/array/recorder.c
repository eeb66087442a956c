/* Operations of a graph as MLIR; see recorder.h. */
#include "lib/array/recorder.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Diagnostics.h>
#include <stdio.h>
#include <string.h>

#include "dialect/dialect.h"
#include "dialect/encoding/encoding.h"
#include "lib/array/dtypes.h"
#include "lib/array/packed.h"
#include "lib/compiler/context.h"
#include "transforms/ir/ir.h"

#define FIRST_SLOTS  ((size_t)256)
#define RENEW_AT     ((size_t)4096) /* kinds, then a new context */
#define MAX_ELEMENTS ((uint64_t)1 << 60)
#define MAX_OPERANDS ((uint32_t)NABLA_MAX_OPERANDS)

struct nabla_recorder {
  const nabla_allocator *allocator;
  MlirContext context;
  MlirModule module;
  MlirOperation end; /* of the module's block: new operations go before it */
  nabla_recorded **slots; /* by hash; open addressing */
  size_t capacity, count; /* capacity: a power of two */
  size_t made;            /* kinds, and those that failed */
  uint64_t pending;       /* nodes */
  uint64_t walks;
  nabla_buffer key; /* bytes of the recording that is looked up */
  char said[256];   /* the last error of MLIR */
};

/* ---- life ---- */

static void add_chunk(MlirStringRef chunk, void *self) {
  nabla_recorder *recorder = self;
  const size_t used = strlen(recorder->said);
  (void)snprintf(recorder->said + used, sizeof recorder->said - used, "%.*s",
                 (int)chunk.length, chunk.data);
}

static MlirLogicalResult listen(MlirDiagnostic diagnostic, void *self) {
  nabla_recorder *recorder = self;
  if (mlirDiagnosticGetSeverity(diagnostic) == MlirDiagnosticError &&
      !*recorder->said)
    mlirDiagnosticPrint(diagnostic, add_chunk, recorder);
  return mlirLogicalResultSuccess();
}

static nabla_status open_context(nabla_recorder *recorder, nabla_diag *diag) {
  NABLA_TRY(nabla_context_create(&recorder->context, diag));
  const MlirContext context = recorder->context;
  mlirContextGetOrLoadDialect(context, nabla_ref("nabla"));
  mlirContextGetOrLoadDialect(context, nabla_ref("func"));
  mlirContextGetOrLoadDialect(context, nabla_ref("arith"));
  mlirContextGetOrLoadDialect(context, nabla_ref("tensor"));
  mlirContextAttachDiagnosticHandler(context, listen, recorder, NULL);
  recorder->module = mlirModuleCreateEmpty(mlirLocationUnknownGet(context));
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("builtin.module"), mlirLocationUnknownGet(context));
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, mlirBlockCreate(0, NULL, NULL));
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  recorder->end = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(recorder->module),
                                recorder->end);
  return NABLA_OK;
}

static size_t size_of(const nabla_recorded *recorded) {
  return sizeof *recorded +
         recorded->result_count * sizeof recorded->results[0];
}

static void close_context(nabla_recorder *recorder) {
  for (size_t i = 0; i < recorder->capacity; i++) {
    nabla_recorded *recorded = recorder->slots[i];
    if (recorded)
      nabla_free(recorder->allocator, recorded, 1, size_of(recorded));
    recorder->slots[i] = NULL;
  }
  recorder->count = recorder->made = 0;
  if (!mlirModuleIsNull(recorder->module)) mlirModuleDestroy(recorder->module);
  if (!mlirContextIsNull(recorder->context))
    mlirContextDestroy(recorder->context);
  recorder->module = (MlirModule){NULL};
  recorder->context = (MlirContext){NULL};
}

nabla_status nabla_recorder_create(const nabla_allocator *allocator,
                                   nabla_recorder **out, nabla_diag *diag) {
  void *memory, *slots;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_recorder), &memory, diag));
  nabla_recorder *recorder = memory;
  recorder->allocator = allocator;
  nabla_buffer_init(&recorder->key, allocator, "an operation", SIZE_MAX / 2);
  nabla_status status = nabla_alloc(allocator, FIRST_SLOTS,
                                    sizeof *recorder->slots, &slots, diag);
  if (!status) {
    recorder->slots = slots;
    recorder->capacity = FIRST_SLOTS;
    status = open_context(recorder, diag);
  }
  if (status)
    nabla_recorder_destroy(recorder);
  else
    *out = recorder;
  return status;
}

void nabla_recorder_destroy(nabla_recorder *recorder) {
  if (!recorder) return;
  close_context(recorder);
  nabla_free(recorder->allocator, recorder->slots, recorder->capacity,
             sizeof *recorder->slots);
  nabla_buffer_deinit(&recorder->key);
  nabla_free(recorder->allocator, recorder, 1, sizeof *recorder);
}

MlirContext nabla_recorder_context(const nabla_recorder *recorder) {
  return recorder->context;
}

MlirModule nabla_recorder_module(const nabla_recorder *recorder) {
  return recorder->module;
}

void nabla_recorder_count(nabla_recorder *recorder, int change) {
  recorder->pending += (uint64_t)(int64_t)change;
}

uint64_t nabla_recorder_pending(const nabla_recorder *recorder) {
  return recorder->pending;
}

uint64_t nabla_recorder_walk(nabla_recorder *recorder) {
  return ++recorder->walks;
}

/* MLIR never frees types and attributes, and kinds are kept for later. */
static nabla_status renew(nabla_recorder *recorder, nabla_diag *diag) {
  if (!mlirContextIsNull(recorder->context) &&
      (recorder->pending || recorder->made < RENEW_AT))
    return NABLA_OK;
  close_context(recorder);
  return open_context(recorder, diag);
}

/* ---- keys ---- */

static nabla_status add(nabla_buffer *key, const void *data, size_t size,
                        nabla_diag *diag) {
  return size ? nabla_buffer_append(key, data, size, diag) : NABLA_OK;
}

static nabla_status add_type(nabla_buffer *key, const nabla_array_type *type,
                             nabla_diag *diag) {
  const uint32_t head[2] = {(uint32_t)type->dtype, type->rank};
  NABLA_TRY(add(key, head, sizeof head, diag));
  return add(key, type->shape, type->rank * sizeof type->shape[0], diag);
}

static nabla_status add_attribute(nabla_buffer *key,
                                  const nabla_recorded_attribute *attribute,
                                  nabla_diag *diag) {
  const uint32_t head[2] = {(uint32_t)attribute->kind, attribute->count};
  if (attribute->count && !attribute->values)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the list '%s' of %" PRIu32 " numbers is NULL",
                      attribute->key, attribute->count);
  NABLA_TRY(add(key, attribute->key, strlen(attribute->key) + 1, diag));
  NABLA_TRY(add(key, head, sizeof head, diag));
  NABLA_TRY(add(key, attribute->values,
                attribute->count * sizeof attribute->values[0], diag));
  NABLA_TRY(add(key, &attribute->number, sizeof attribute->number, diag));
  if (!attribute->type) return NABLA_OK;
  NABLA_TRY(add_type(key, attribute->type, diag));
  if (attribute->kind != NABLA_ATTRIBUTE_DENSE) return NABLA_OK;
  return add(key, attribute->type->data, nabla_dtype_bytes(attribute->type),
             diag);
}

static nabla_status hash(nabla_recorder *recorder,
                         const nabla_recording *recording, XXH128_hash_t *out,
                         nabla_diag *diag) {
  nabla_buffer *key = &recorder->key;
  const uint32_t head[2] = {recording->operand_count,
                            recording->attribute_count};
  key->size = 0;
  NABLA_TRY(add(key, recording->op, strlen(recording->op) + 1, diag));
  NABLA_TRY(add(key, head, sizeof head, diag));
  for (uint32_t i = 0; i < recording->operand_count; i++)
    NABLA_TRY(add_type(key, recording->operands[i], diag));
  for (uint32_t i = 0; i < recording->attribute_count; i++)
    NABLA_TRY(add_attribute(key, &recording->attributes[i], diag));
  if (recording->result) NABLA_TRY(add_type(key, recording->result, diag));
  *out = XXH3_128bits(key->data, key->size);
  return NABLA_OK;
}

/* The slot of a hash: its own, or the free one where it belongs. */
static nabla_recorded **slot_of(nabla_recorded **slots, size_t capacity,
                                XXH128_hash_t key) {
  size_t at = (size_t)key.low64 & (capacity - 1);
  while (slots[at] && !XXH128_isEqual(slots[at]->hash, key))
    at = (at + 1) & (capacity - 1);
  return &slots[at];
}

static nabla_status grow(nabla_recorder *recorder, nabla_diag *diag) {
  void *memory;
  const size_t capacity = 2 * recorder->capacity;
  NABLA_TRY(nabla_alloc(recorder->allocator, capacity, sizeof *recorder->slots,
                        &memory, diag));
  nabla_recorded **slots = memory;
  for (size_t i = 0; i < recorder->capacity; i++)
    if (recorder->slots[i])
      *slot_of(slots, capacity, recorder->slots[i]->hash) = recorder->slots[i];
  nabla_free(recorder->allocator, recorder->slots, recorder->capacity,
             sizeof *recorder->slots);
  recorder->slots = slots;
  recorder->capacity = capacity;
  return NABLA_OK;
}

/* ---- operations ---- */

MlirType nabla_recorder_type(MlirContext context,
                             const nabla_array_type *type) {
  int64_t shape[NABLA_ARRAY_MAX_RANK];
  if (type->dtype == NABLA_DTYPE_INDEX) return mlirIndexTypeGet(context);
  if (nabla_dtype_is_packed(type->dtype))
    return mlirTypeParseGet(context, nabla_ref(nabla_packed_text(type->dtype)));
  const MlirType element = nabla_dtype_to_mlir(context, type->dtype);
  if (mlirTypeIsNull(element)) return element;
  for (uint32_t i = 0; i < type->rank; i++)
    shape[i] =
        type->shape[i] < 0 ? mlirShapedTypeGetDynamicSize() : type->shape[i];
  return mlirRankedTensorTypeGet(type->rank, shape, element,
                                 mlirAttributeGetNull());
}

static MlirAttribute attribute_of(MlirContext context,
                                  const nabla_recorded_attribute *a) {
  switch (a->kind) {
    case NABLA_ATTRIBUTE_LIST:
      return mlirDenseI64ArrayGet(context, a->count, a->values);
    case NABLA_ATTRIBUTE_I64:
      return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), a->values[0]);
    case NABLA_ATTRIBUTE_I32:
      return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 32), a->values[0]);
    case NABLA_ATTRIBUTE_INDEX:
      return mlirIntegerAttrGet(mlirIndexTypeGet(context), a->values[0]);
    case NABLA_ATTRIBUTE_UNIT:
      break;
    case NABLA_ATTRIBUTE_F64:
      return mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context),
                                    a->number);
    case NABLA_ATTRIBUTE_ELEMENT: {
      const MlirType element = nabla_dtype_to_mlir(context, a->type->dtype);
      return nabla_dtype_is_float(a->type->dtype)
                 ? mlirFloatAttrDoubleGet(context, element, a->number)
                 : mlirIntegerAttrGet(element, a->values[0]);
    }
    case NABLA_ATTRIBUTE_DENSE:
      return nabla_dense_to_mlir(context, a->type);
    case NABLA_ATTRIBUTE_SIZES: {
      int32_t sizes[8] = {0};
      for (uint32_t i = 0; i < a->count && i < 8; i++)
        sizes[i] = (int32_t)a->values[i];
      return mlirDenseI32ArrayGet(context, a->count, sizes);
    }
  }
  return mlirUnitAttrGet(context);
}

/* A value of the operand's type, which stands for any operand. */
static MlirValue placeholder(nabla_recorder *recorder,
                             const nabla_array_type *type) {
  const MlirType tensor = nabla_recorder_type(recorder->context, type);
  if (mlirTypeIsNull(tensor)) return (MlirValue){NULL};
  const nabla_op_spec spec = {NABLA_CAST, 0, NULL, 1, &tensor, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(recorder->end, &spec), 0);
}

/* The placeholders of `count` operands; false where a dtype has no type. */
static bool add_placeholders(nabla_recorder *recorder, uint32_t count,
                             const nabla_array_type *const *types,
                             MlirValue *out) {
  for (uint32_t i = 0; i < count; i++) {
    out[i] = placeholder(recorder, types[i]);
    if (mlirValueIsNull(out[i])) return false;
  }
  return true;
}

static MlirOperation create(nabla_recorder *recorder,
                            const nabla_recording *recording) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  MlirNamedAttribute attributes[NABLA_MAX_ATTRIBUTES];
  MlirOperation none = {NULL};
  const MlirContext context = recorder->context;
  if (!add_placeholders(recorder, recording->operand_count, recording->operands,
                        operands))
    return none;
  for (uint32_t i = 0; i < recording->attribute_count; i++) {
    const nabla_recorded_attribute *given = &recording->attributes[i];
    const MlirAttribute attribute = attribute_of(context, given);
    if (mlirAttributeIsNull(attribute)) return none;
    attributes[i] = nabla_named(context, given->key, attribute);
  }
  nabla_op_spec spec = {
      recording->op, recording->operand_count,   operands,  -1,
      NULL,          recording->attribute_count, attributes};
  MlirType result = {NULL};
  if (recording->result) {
    result = nabla_recorder_type(context, recording->result);
    if (mlirTypeIsNull(result)) return none;
    spec.result_count = 1;
    spec.results = &result;
  }
  const MlirOperation op = nabla_op_create(recorder->end, &spec);
  return !mlirOperationIsNull(op) && mlirOperationVerify(op) ? op : none;
}

static bool read_type(MlirType type, nabla_array_type *out) {
  if (nablaTypeIsAImplicit(type)) return !nabla_packed_intern(type, out, NULL);
  if (mlirTypeIsAIndex(type)) {
    *out = (nabla_array_type){.dtype = NABLA_DTYPE_INDEX};
    return true;
  }
  if (!mlirTypeIsARankedTensor(type)) return false;
  *out = (nabla_array_type){.rank = (uint32_t)mlirShapedTypeGetRank(type)};
  for (uint32_t i = 0; i < out->rank; i++)
    out->shape[i] = mlirShapedTypeIsDynamicDim(type, (intptr_t)i)
                        ? NABLA_DYNAMIC
                        : mlirShapedTypeGetDimSize(type, (intptr_t)i);
  return nabla_dtype_from_mlir(mlirShapedTypeGetElementType(type), &out->dtype);
}

nabla_status nabla_recorder_parse(nabla_recorder *recorder, const char *text,
                                  nabla_array_type *out, nabla_diag *diag) {
  *recorder->said = 0;
  const MlirType type = mlirTypeParseGet(recorder->context, nabla_ref(text));
  if (!mlirTypeIsNull(type) && nablaTypeIsAImplicit(type))
    return nabla_packed_intern(type, out, diag);
  return nabla_fail(
      diag, NABLA_INVALID_ARGUMENT, "%s",
      *recorder->said ? recorder->said : "the text is no encoding");
}

/* ---- sizes ---- */

#define MAX_PROBED                                          \
  ((uint32_t)16) /* numbers of unknown sizes in a recording \
                  */

/* Numbers of unknown sizes, and sizes that stand for them. */
typedef struct probe {
  uint32_t count;
  int64_t numbers[MAX_PROBED];
  int64_t sizes[MAX_PROBED];
} probe;

static int64_t probed_size(probe *p, int64_t number, int64_t first) {
  for (uint32_t i = 0; i < p->count; i++)
    if (p->numbers[i] == number) return p->sizes[i];
  if (p->count == MAX_PROBED) return number;
  p->numbers[p->count] = number;
  p->sizes[p->count] = first + 210 * (int64_t)p->count * (int64_t)p->count;
  return p->sizes[p->count++];
}

/* Infers the results once more, with sizes in place of unknown ones: a result
 * whose size is one of these has its number. */
static bool infer_sizes(nabla_recorder *recorder,
                        const nabla_recording *recording, int64_t first,
                        uint32_t count, nabla_array_type *out) {
  nabla_array_type types[NABLA_MAX_OPERANDS];
  const nabla_array_type *pointers[NABLA_MAX_OPERANDS];
  probe p = {.count = 0};
  nabla_recording sized = *recording;
  for (uint32_t i = 0; i < recording->operand_count; i++) {
    types[i] = *recording->operands[i];
    pointers[i] = &types[i];
    for (uint32_t d = 0; d < types[i].rank; d++)
      if (types[i].shape[d] < 0)
        types[i].shape[d] = probed_size(&p, types[i].shape[d], first);
  }
  sized.operands = pointers;
  const MlirOperation op = create(recorder, &sized);
  *recorder->said = 0;
  if (mlirOperationIsNull(op) ||
      mlirOperationGetNumResults(op) != (intptr_t)count)
    return false;
  for (uint32_t i = 0; i < count; i++) {
    if (!read_type(nabla_result_type(op, (intptr_t)i), &out[i])) return false;
    for (uint32_t d = 0; d < out[i].rank; d++)
      for (uint32_t k = 0; k < p.count; k++)
        if (out[i].shape[d] == p.sizes[k]) out[i].shape[d] = p.numbers[k];
  }
  return true;
}

/* Numbers the `?` of results whose size is that of an operand's dimension: what
 * two inferences with other sizes agree on. */
static void number_sizes(nabla_recorder *recorder,
                         const nabla_recording *recording,
                         nabla_recorded *recorded) {
  enum { MAX_RESULTS = 8 };
  nabla_array_type first[MAX_RESULTS], second[MAX_RESULTS];
  const uint32_t count = recorded->result_count;
  if (recording->result) {
    recorded->results[0] = *recording->result;
    return;
  }
  bool is_open = false;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t d = 0; d < recorded->results[i].rank; d++)
      is_open = is_open || recorded->results[i].shape[d] < 0;
  if (!is_open || count > MAX_RESULTS ||
      !infer_sizes(recorder, recording, 100003, count, first) ||
      !infer_sizes(recorder, recording, 200029, count, second))
    return;
  for (uint32_t i = 0; i < count; i++) {
    nabla_array_type *out = &recorded->results[i];
    for (uint32_t d = 0; d < out->rank; d++)
      if (out->shape[d] < 0 && first[i].shape[d] < 0 &&
          first[i].shape[d] == second[i].shape[d])
        out->shape[d] = first[i].shape[d];
  }
}

/* ---- kinds ---- */

/* Whether the known sizes of an array have a product that sizes of memory have
 * too. */
static bool is_bounded(const nabla_array_type *type) {
  uint64_t elements = 1;
  for (uint32_t d = 0; d < type->rank; d++) {
    if (!type->shape[d]) return true;
    if (type->shape[d] < 0) continue;
    if (__builtin_mul_overflow(elements, (uint64_t)type->shape[d], &elements) ||
        elements > MAX_ELEMENTS)
      return false;
  }
  return true;
}

static nabla_status read_results(nabla_recorded *recorded, nabla_diag *diag) {
  for (uint32_t i = 0; i < recorded->result_count; i++) {
    nabla_array_type *type = &recorded->results[i];
    if (!read_type(nabla_result_type(recorded->op, (intptr_t)i), type))
      return nabla_fail(diag, NABLA_UNSUPPORTED, "a result that is no tensor");
    if (!is_bounded(type))
      return nabla_fail(diag, NABLA_TOO_LARGE,
                        "a result of more than 2^60 elements");
  }
  return NABLA_OK;
}

/* Makes what is entered at `key`, of an operation that may be null. */
static nabla_status make(nabla_recorder *recorder, MlirOperation op,
                         XXH128_hash_t key, uint32_t operand_count,
                         nabla_recorded **out, nabla_diag *diag) {
  void *memory;
  if (mlirOperationIsNull(op))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s",
                      *recorder->said ? recorder->said
                                      : "a dtype that programs do not have, or "
                                        "more than 4096 truth values in a "
                                        "constant");
  const size_t count = (size_t)mlirOperationGetNumResults(op);
  NABLA_TRY(
      nabla_alloc(recorder->allocator, 1,
                  sizeof(nabla_recorded) + count * sizeof(nabla_array_type),
                  &memory, diag));
  nabla_recorded *recorded = memory;
  recorded->hash = key;
  recorded->op = op;
  recorded->operand_count = operand_count;
  recorded->direct_count = (uint32_t)mlirOperationGetNumOperands(op);
  recorded->result_count = (uint32_t)count;
  const nabla_status status = read_results(recorded, diag);
  if (status)
    nabla_free(recorder->allocator, recorded, 1, size_of(recorded));
  else
    *out = recorded;
  return status;
}

/* The slot of a key, where there is space for one more. */
static nabla_status find_slot(nabla_recorder *recorder, XXH128_hash_t key,
                              nabla_recorded ***out, nabla_diag *diag) {
  *out = slot_of(recorder->slots, recorder->capacity, key);
  *recorder->said = 0;
  if (**out) return NABLA_OK;
  NABLA_TRY(renew(recorder, diag));
  recorder->made++;
  if (2 * recorder->count >= recorder->capacity)
    NABLA_TRY(grow(recorder, diag));
  *out = slot_of(recorder->slots, recorder->capacity, key);
  return NABLA_OK;
}

nabla_status nabla_recorder_find(nabla_recorder *recorder,
                                 const nabla_recording *recording,
                                 const nabla_recorded **out, nabla_diag *diag) {
  XXH128_hash_t key;
  nabla_recorded **slot;
  if (recording->operand_count > MAX_OPERANDS)
    return nabla_fail(diag, NABLA_TOO_LARGE, "%" PRIu32 " operands; at most %d",
                      recording->operand_count, NABLA_MAX_OPERANDS);
  if (recording->attribute_count > NABLA_MAX_ATTRIBUTES)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%" PRIu32 " attributes; at most %d",
                      recording->attribute_count, NABLA_MAX_ATTRIBUTES);
  NABLA_TRY(hash(recorder, recording, &key, diag));
  NABLA_TRY(find_slot(recorder, key, &slot, diag));
  if (!*slot) {
    NABLA_TRY(make(recorder, create(recorder, recording), key,
                   recording->operand_count, slot, diag));
    number_sizes(recorder, recording, *slot);
    recorder->count++;
  }
  *out = *slot;
  return NABLA_OK;
}

nabla_status nabla_recorder_find_built(nabla_recorder *recorder,
                                       const nabla_built *built,
                                       const nabla_recorded **out,
                                       nabla_diag *diag) {
  void *memory;
  nabla_recorded **slot;
  const XXH128_hash_t key = XXH3_128bits(built->key, built->key_size);
  const size_t count = built->direct_count;
  NABLA_TRY(find_slot(recorder, key, &slot, diag));
  if (!*slot) {
    MlirOperation op = {NULL};
    NABLA_TRY(nabla_alloc(recorder->allocator, count, sizeof(MlirValue),
                          &memory, diag));
    MlirValue *operands = memory;
    if (add_placeholders(recorder, built->direct_count, built->operands,
                         operands))
      op = built->build(built->self, recorder->end, operands);
    nabla_free(recorder->allocator, memory, count, sizeof(MlirValue));
    if (!mlirOperationIsNull(op) && !mlirOperationVerify(op))
      op = (MlirOperation){NULL};
    NABLA_TRY(make(recorder, op, key, built->operand_count, slot, diag));
    recorder->count++;
  }
  *out = *slot;
  return NABLA_OK;
}
