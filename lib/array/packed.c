/* Packed arrays; see packed.h. */
#include "lib/array/packed.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/encoding/encoding.h"
#include "dialect/encoding/slice_blocks.h"
#include "lib/array/engine.h"
#include "lib/array/graph.h"
#include "lib/array/make.h"
#include "lib/array/shards.h"
#include "lib/base/nesting.h"
#include "lib/models/model_text.h"
#include "nabla/session.h"
#include "transforms/ir/ir.h"

/* ---- types ---- */

typedef struct packed_type {
  nabla_dtype element;
  bool is_view;  /* of a storage that is larger, or in another order     */
  bool is_piece; /* of whole blocks, with components that begin at `first` */
  int64_t first[NABLA_MAX_PARTS];
  size_t length;
  char text[]; /* ends with NUL */
} packed_type;

/* Types by number; they are never freed. */
static _Atomic(packed_type *) types[NABLA_PACKED_TYPES];
static atomic_uint type_count;
static pthread_mutex_t types_lock = PTHREAD_MUTEX_INITIALIZER;

static const packed_type *type_of(nabla_dtype dtype) {
  return types[(unsigned)dtype - NABLA_PACKED_FIRST];
}

nabla_dtype nabla_dtype_element(nabla_dtype dtype) {
  return nabla_dtype_is_packed(dtype) ? type_of(dtype)->element : dtype;
}

const char *nabla_packed_text(nabla_dtype dtype) {
  return type_of(dtype)->text;
}

static void read_piece(MlirType from, packed_type *type) {
  nabla_cut cut;
  type->is_view = nablaImplicitTypeParts(from).storageRank >= 0;
  type->is_piece = type->is_view && nabla_cut_read(from, &cut);
  if (type->is_piece) memcpy(type->first, cut.first, sizeof type->first);
}

static nabla_status enter(MlirType from, const nabla_text *text,
                          nabla_dtype element, unsigned *out,
                          nabla_diag *diag) {
  const unsigned count = type_count;
  const size_t length = text->size;
  void *memory;
  for (unsigned i = 0; i < count; i++) {
    const packed_type *type = types[i];
    if (type->length == length && !memcmp(type->text, text->data, length)) {
      *out = i;
      return NABLA_OK;
    }
  }
  if (count == NABLA_PACKED_TYPES)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "more than %d types of packed arrays",
                      NABLA_PACKED_TYPES);
  NABLA_TRY(
      nabla_alloc(NULL, 1, sizeof(packed_type) + length + 1, &memory, diag));
  packed_type *type = memory;
  type->element = element;
  read_piece(from, type);
  type->length = length;
  memcpy(type->text, text->data, length);
  types[count] = type;
  type_count = count + 1;
  *out = count;
  return NABLA_OK;
}

nabla_status nabla_packed_intern(MlirType type, nabla_dense *out,
                                 nabla_diag *diag) {
  nabla_dtype element;
  unsigned number = 0;
  const intptr_t rank = nabla_array_rank(type);
  if (rank > NABLA_ARRAY_MAX_RANK ||
      !nabla_dtype_from_mlir(nabla_array_element(type), &element))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "a packed array of another rank or dtype");
  nabla_text text = {0};
  nabla_text_add_type(&text, type);
  pthread_mutex_lock(&types_lock);
  const nabla_status status =
      text.data ? enter(type, &text, element, &number, diag)
                : nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  pthread_mutex_unlock(&types_lock);
  nabla_text_deinit(&text);
  if (status) return status;
  *out =
      (nabla_dense){.dtype = nabla_dtype_numbered(NABLA_PACKED_FIRST + number),
                    .rank = (uint32_t)rank};
  for (intptr_t i = 0; i < rank; i++) out->shape[i] = nabla_array_dim(type, i);
  return NABLA_OK;
}

nabla_status nabla_packed_slice(MlirContext context, nabla_array_type *type,
                                nabla_diag *diag) {
  nabla_slices found;
  const MlirType whole = nabla_recorder_type(context, type);
  const MlirType slice =
      type->rank ? nabla_slice_type(whole) : (MlirType){NULL};
  if (!mlirTypeIsNull(slice) && nabla_slices_find(whole, slice, &found))
    return nabla_packed_intern(slice, type, diag);
  type->dtype = nabla_dtype_element(type->dtype);
  if (!type->rank) return NABLA_OK;
  type->rank--;
  memmove(type->shape, type->shape + 1, type->rank * sizeof type->shape[0]);
  return NABLA_OK;
}

uint32_t nabla_packed_components(MlirContext context,
                                 const nabla_array_type *type) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  return nabla_implicit_components(nabla_recorder_type(context, type), parts);
}

/* ---- values ---- */

nabla_status nabla_packed_prepare(nabla_array *array, nabla_diag *diag) {
  void *memory;
  if (!nabla_dtype_is_packed(array->dense.dtype)) return NABLA_OK;
  NABLA_TRY(nabla_alloc(array->allocator, 1, sizeof(nabla_packed_value),
                        &memory, diag));
  array->packed = memory;
  array->packed->shown = array->dense;
  array->packed->shown.dtype = nabla_dtype_element(array->dense.dtype);
  return NABLA_OK;
}

void nabla_packed_forget(nabla_array *array) {
  nabla_packed_value *packed = array->packed;
  if (!packed || !packed->is_owned) return;
  for (uint32_t i = 0; i < packed->weight.component_count; i++)
    nabla_result_free(array->allocator,
                      (void *)(uintptr_t)packed->weight.components[i].data);
  packed->is_owned = false;
}

void nabla_packed_free(nabla_array *array) {
  nabla_packed_value *packed = array->packed;
  if (!packed) return;
  nabla_packed_forget(array);
  nabla_free(array->allocator, packed, 1, sizeof *packed);
  array->packed = NULL;
}

bool nabla_packed_among(size_t count, nabla_array *const *arrays) {
  for (size_t i = 0; i < count; i++)
    if (arrays[i] && arrays[i]->packed) return true;
  return false;
}

/* What stands for the data of a packed array: not NULL once it is realized. */
static void mark_realized(nabla_array *array) {
  array->dense.data = &array->packed->weight;
}

void nabla_packed_take(nabla_array *array) {
  array->packed->is_owned = true;
  mark_realized(array);
}

/* ---- runs ---- */

static nabla_status run_in(nabla_session *session, size_t input_count,
                           nabla_array *const *inputs, size_t result_count,
                           nabla_array *const *results, nabla_session_input *in,
                           nabla_session_output *out, nabla_diag *diag) {
  for (size_t i = 0; i < input_count; i++) {
    NABLA_TRY(nabla_array_whole(inputs[i], &in[i].dense, diag));
    if (inputs[i]->packed) in[i].weight = &inputs[i]->packed->weight;
  }
  for (size_t i = 0; i < result_count; i++) {
    out[i].dense = results[i]->dense;
    if (results[i]->packed) out[i].weight = &results[i]->packed->weight;
  }
  const nabla_session_arrays arrays = {
      .struct_size = sizeof arrays,
      .inputs = in,
      .input_count = input_count,
      .outputs = out,
      .output_count = result_count,
      .allocator = result_count ? results[0]->allocator : NULL};
  NABLA_TRY(nabla_session_call(session, "main", &arrays, diag));
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < result_count; i++) {
    if (results[i]->packed) {
      nabla_packed_take(results[i]);
    } else if (!results[i]->dense.data) {
      const nabla_status copied =
          nabla_array_copy(results[i], &out[i].dense, diag);
      nabla_result_free(results[i]->allocator, out[i].dense.data);
      if (!status) status = copied;
    }
  }
  return status;
}

nabla_status nabla_packed_run(nabla_program *program, size_t input_count,
                              nabla_array *const *inputs, size_t result_count,
                              nabla_array *const *results, nabla_diag *diag) {
  nabla_session *session;
  void *in = NULL, *out = NULL;
  const nabla_allocator *allocator =
      result_count ? results[0]->allocator : NULL;
  NABLA_TRY(nabla_program_take_session(program, &session, diag));
  nabla_status status = nabla_alloc(allocator, input_count,
                                    sizeof(nabla_session_input), &in, diag);
  if (!status)
    status = nabla_alloc(allocator, result_count, sizeof(nabla_session_output),
                         &out, diag);
  if (!status)
    status = run_in(session, input_count, inputs, result_count, results, in,
                    out, diag);
  nabla_free(allocator, out, result_count, sizeof(nabla_session_output));
  nabla_free(allocator, in, input_count, sizeof(nabla_session_input));
  nabla_program_give_session(program, session);
  return status;
}

/* ---- the packed type that a description has ---- */

static bool read_type(const nabla_making *m, const nabla_weight_desc *weight,
                      nabla_array_type *out) {
  char text[NABLA_MODEL_TYPE_SIZE];
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = nabla_model_type(weight, text, &diag);
  if (!status) {
    const MlirType type =
        mlirTypeParseGet(nabla_recorder_context(m->scope->recorder),
                         mlirStringRefCreateFromCString(text));
    status = mlirTypeIsNull(type)
                 ? nabla_fail(&diag, NABLA_UNSUPPORTED,
                              "no program takes the type %s", text)
                 : nabla_packed_intern(type, out, &diag);
  }
  if (!status) return true;
  nabla_call_fail(m->site, m->scope, status, "%s", diag.what);
  return false;
}

/* The description of a packed array of this layout; false after a failure. */
static bool describe(const nabla_making *m, const nabla_storage *layout,
                     uint32_t count, const int64_t *shape,
                     nabla_weight_desc *out) {
  if (!layout || layout->kind == NABLA_STORAGE_DENSE ||
      (layout->kind == NABLA_STORAGE_PLANES && !layout->format.encoding) ||
      (layout->kind == NABLA_STORAGE_BLOCKS && !layout->ggml)) {
    (void)NABLA_MAKE_FAIL(m, "the layout is NULL, or not packed");
    return false;
  }
  *out = (nabla_weight_desc){
      .dtype = NABLA_DTYPE_F32, .rank = count, .layout = *layout};
  for (uint32_t i = 0; i < count; i++) out->shape[i] = (uint64_t)shape[i];
  return true;
}

/* ---- functions ---- */

/* A leaf of the weight's components, which stay where they are. */
static nabla_array *add_packed_leaf(const nabla_making *m,
                                    const nabla_weight_desc *weight) {
  nabla_array_type type;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = nabla_weight_check(weight, &diag);
  if (status) {
    nabla_call_fail(m->site, m->scope, status, "%s", diag.what);
    return NULL;
  }
  if (!read_type(m, weight, &type)) return NULL;
  nabla_array *array = nabla_array_new(m->scope);
  if (!array) return NULL;
  array->dense = type;
  status = nabla_packed_prepare(array, &diag);
  if (status) {
    nabla_call_fail(m->site, m->scope, status, "%s", diag.what);
    nabla_array_leave(array);
    return NULL;
  }
  array->packed->weight = *weight;
  array->packed->weight.name = NULL;
  mark_realized(array);
  return array;
}

/* A leaf of a dense weight's component. */
static nabla_array *add_dense_leaf(const nabla_making *m,
                                   const nabla_weight_desc *weight) {
  const nabla_weight_component *component = &weight->components[0];
  const bool has_data = weight->component_count && component->data;
  nabla_dense dense = {
      .data = has_data ? (void *)(uintptr_t)component->data : NULL,
      .dtype = weight->dtype,
      .rank = weight->rank};
  for (uint32_t i = 0; i < weight->rank; i++)
    dense.shape[i] = (int64_t)weight->shape[i];
  nabla_array *array = nabla_array_leaf(m->scope, &dense, false,
                                        m->site->function, m->site->place);
  if (!array || !has_data) return array;
  const uint64_t needed = nabla_dtype_bytes(&dense);
  if (component->bytes >= needed) return array;
  nabla_array_leave(array);
  return NABLA_MAKE_FAIL(
      m, "the data has %" PRIu64 " bytes, and the shape needs %" PRIu64,
      component->bytes, needed);
}

nabla_array *nabla_array_of_weight(nabla_scope *scope,
                                   const nabla_weight_desc *weight) {
  NABLA_MAKE_IN(m, array_of_weight, scope);
  if (!m->scope) return NULL;
  if (!weight) return NABLA_MAKE_FAIL(m, "the argument weight is NULL");
  if (weight->rank > NABLA_ARRAY_MAX_RANK)
    return NABLA_MAKE_FAIL(m, "rank %u; at most %d", weight->rank,
                           NABLA_ARRAY_MAX_RANK);
  if (weight->layout.kind != NABLA_STORAGE_DENSE)
    return add_packed_leaf(m, weight);
  return add_dense_leaf(m, weight);
}

nabla_array *nabla_quantize(nabla_array *x, const nabla_storage *layout) {
  NABLA_MAKE(m, quantize, x);
  nabla_weight_desc weight;
  nabla_array_type type;
  if (!m->scope ||
      !describe(m, layout, x->dense.rank, x->dense.shape, &weight) ||
      !read_type(m, &weight, &type))
    return NULL;
  nabla_array *dense =
      nabla_make_convert(m, nabla_make_dense(m, x), NABLA_DTYPE_F32);
  return nabla_make_op(m, "nabla.quantize", 1, &dense, 0, NULL, &type);
}

nabla_array *nabla_materialize(nabla_array *x) {
  NABLA_MAKE(m, materialize, x);
  return m->scope ? nabla_make_dense(m, x) : NULL;
}

/* Components as nabla.pack takes them; false where there are too many. */
static bool take_components(const nabla_making *m, uint32_t count,
                            nabla_array *const *components, nabla_array **out) {
  if (count > NABLA_WEIGHT_MAX_COMPONENTS) {
    (void)NABLA_MAKE_FAIL(m, "%u components; at most %d", count,
                          NABLA_WEIGHT_MAX_COMPONENTS);
    return false;
  }
  for (uint32_t i = 0; i < count; i++)
    out[i] = components[i]->dense.dtype == NABLA_DTYPE_U8
                 ? nabla_make_convert(m, components[i], NABLA_DTYPE_I8)
                 : components[i];
  return true;
}

nabla_array *nabla_pack(uint32_t count, nabla_array *const *components,
                        const nabla_storage *layout, uint32_t rank,
                        const int64_t *shape) {
  NABLA_MAKE_LIST(m, pack, components ? count : 0, components);
  nabla_array *list[NABLA_WEIGHT_MAX_COMPONENTS];
  nabla_array_type dense, type;
  nabla_weight_desc weight;
  if (!m->scope || !nabla_make_type(m, NABLA_DTYPE_F32, rank, shape, &dense) ||
      !describe(m, layout, rank, dense.shape, &weight) ||
      !read_type(m, &weight, &type) ||
      !take_components(m, m_site.count, components, list))
    return NULL;
  return nabla_make_op(m, "nabla.pack", m_site.count, list, 0, NULL, &type);
}

/* The packed type of this shape and encoding; false after a failure. */
static bool read_encoding(const nabla_making *m, const char *encoding,
                          const nabla_array_type *dense,
                          nabla_array_type *out) {
  nabla_text text = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_text_add(&text, "!nabla.implicit<");
  for (uint32_t d = 0; d < dense->rank; d++)
    nabla_text_add(&text, "%" PRId64 "x", dense->shape[d]);
  nabla_text_add(&text, "f32, %s>", encoding);
  nabla_status status = text.failed
                            ? nabla_fail(&diag, NABLA_NO_MEMORY, "no memory")
                            : nabla_nesting_check(text.data, text.size, &diag);
  if (!status)
    status = nabla_recorder_parse(m->scope->recorder, text.data, out, &diag);
  nabla_text_deinit(&text);
  if (!status) return true;
  nabla_call_fail(m->site, m->scope, status, "%s", diag.what);
  return false;
}

nabla_array *nabla_pack_as(uint32_t count, nabla_array *const *components,
                           const char *encoding, uint32_t rank,
                           const int64_t *shape) {
  NABLA_MAKE_LIST(m, pack_as, components ? count : 0, components);
  nabla_array *list[NABLA_WEIGHT_MAX_COMPONENTS];
  nabla_array_type dense, type;
  if (!m->scope || !nabla_make_type(m, NABLA_DTYPE_F32, rank, shape, &dense))
    return NULL;
  if (!encoding) return NABLA_MAKE_FAIL(m, "the argument encoding is NULL");
  for (uint32_t d = 0; d < rank; d++)
    if (shape[d] < 0)
      return NABLA_MAKE_FAIL(m, "a packed array has no unknown size");
  if (!read_encoding(m, encoding, &dense, &type) ||
      !take_components(m, m_site.count, components, list))
    return NULL;
  return nabla_make_op(m, "nabla.pack", m_site.count, list, 0, NULL, &type);
}

void nabla_unpack(nabla_array *x, uint32_t count, nabla_array **out) {
  NABLA_MAKE(m, unpack, x);
  for (uint32_t i = 0; i < count; i++) out[i] = NULL;
  if (!m->scope) return;
  if (!nabla_dtype_is_packed(x->dense.dtype)) {
    (void)NABLA_MAKE_FAIL(m, "the array is not packed");
    return;
  }
  const nabla_recording recording = {.op = "nabla.unpack", .operand_count = 1};
  (void)nabla_record_all(m->site, m->scope, &recording, &x, count, out);
}

nabla_array *nabla_implicit_depth(nabla_array *x) {
  NABLA_MAKE(m, implicit_depth, x);
  return nabla_make_op(m, "nabla.implicit_depth", 1, &x, 0, NULL, NULL);
}

int nabla_array_is_packed(const nabla_array *array) {
  return array && nabla_dtype_is_packed(array->dense.dtype);
}

/* The number of the element at which a component of a piece begins. */
static uint64_t first_of(const packed_type *type, const nabla_storage *layout,
                         const char *component) {
  const uint64_t scale = (uint64_t)type->first[1];
  if (!strcmp(component, "codes") || !strcmp(component, "blocks"))
    return (uint64_t)type->first[0];
  if (!strcmp(component, "scales") || !strcmp(component, "scales.codes"))
    return scale;
  if (!strcmp(component, "scales.scales")) return scale / layout->nested_block;
  if (!strcmp(component, "zero_points")) return (uint64_t)type->first[2];
  return 0; /* one for all */
}

nabla_status nabla_packed_describe(const nabla_array *array,
                                   nabla_weight_desc *out, nabla_diag *diag) {
  nabla_weight_component parts[NABLA_WEIGHT_MAX_COMPONENTS];
  const nabla_weight_desc *whole = &array->packed->weight;
  const packed_type *type = type_of(array->dense.dtype);
  nabla_weight_desc piece = *whole;
  uint32_t count;
  if (type->is_view && !type->is_piece)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "a packed array that is a view, not whole "
                      "blocks in order: quantize what nabla_materialize gives");
  if (type->is_view) {
    const nabla_dense *shown = &array->packed->shown;
    piece.rank = shown->rank;
    for (uint32_t d = 0; d < shown->rank; d++)
      piece.shape[d] = (uint64_t)shown->shape[d];
    NABLA_TRY(nabla_weight_components(&piece, parts, &count, diag));
    for (uint32_t i = 0; i < count && i < piece.component_count; i++) {
      const uint64_t first = first_of(type, &piece.layout, parts[i].name) *
                             (nabla_dtype_bits(parts[i].dtype) / 8);
      piece.components[i].data =
          (const char *)whole->components[i].data + first;
      piece.components[i].bytes = parts[i].bytes;
    }
  }
  *out = piece;
  return NABLA_OK;
}

nabla_status nabla_array_weight(nabla_array *array, nabla_weight_desc *out,
                                nabla_diag *diag) {
  nabla_scope *scope = nabla_scope_innermost();
  if (!out || (array && !nabla_array_is_packed(array)))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "nabla_array_weight: %s",
                      out ? "the array is not packed" : "out is NULL");
  if (!array || !array->dense.data) {
    if (!scope)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "nabla_array_weight: %s",
                        array ? "a pending array, and this thread has no scope"
                              : "array is NULL");
    NABLA_TRY(nabla_realize(scope, 1, &array, diag));
  }
  return nabla_packed_describe(array, out, diag);
}
