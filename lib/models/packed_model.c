/* Weights of a model, packed in memory as nabla-quant packs them in a file:
 * nabla/decoder.h. */
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/program/allocations.h"
#include "nabla/decoder.h"
#include "quant/codec/codec.h"

#define PART_ELEMENTS 65536u /* that are dense at a time, of each thread */

struct nabla_packed_model {
  const nabla_allocator *allocator;
  nabla_weight_desc *weights;
  size_t count, room;
  nabla_allocations blocks; /* their components */
};

/* ---- how: NAME[:BLOCK][:f16][:search] ------------------------------------ */

typedef struct packing {
  nabla_storage layout;
  int is_searched;
} packing;

/* One word behind the name: a block, f16, or search. */
static int take_word(const char *word, size_t length, packing *out) {
  uint64_t block = 0;
  if (length == 3 && !memcmp(word, "f16", 3)) {
    out->layout.format.scale = NABLA_SCALE_F16;
    return 1;
  }
  if (length == 6 && !memcmp(word, "search", 6)) {
    out->is_searched = 1;
    return 1;
  }
  for (size_t i = 0; i < length && length < 6; i++) {
    if (word[i] < '0' || word[i] > '9') return 0;
    block = block * 10 + (uint64_t)(word[i] - '0');
  }
  out->layout.format.block = block;
  return block != 0;
}

/* Blocks of GGUF have one form. */
static nabla_status parse(const char *text, packing *out, nabla_diag *diag) {
  char name[32] = "";
  size_t length = strcspn(text, ":");
  if (length < sizeof name) memcpy(name, text, length);
  const nabla_encoding *encoding = nabla_encoding_find(name);
  const nabla_ggml *ggml = nabla_ggml_find(name);
  const int is_mx = encoding && encoding->is_mx;
  int is_good = encoding != NULL || (ggml && ggml->can_encode && !text[length]);
  *out = (packing){.layout = {.kind = NABLA_STORAGE_BLOCKS, .ggml = ggml}};
  if (encoding)
    out->layout = (nabla_storage){
        .kind = NABLA_STORAGE_PLANES,
        .format = {.encoding = encoding,
                   .block = is_mx ? NABLA_BLOCK_MX : 64,
                   .scale = is_mx ? NABLA_SCALE_E8M0 : NABLA_SCALE_F32}};
  for (const char *word = text + length; *word && is_good; word += length) {
    length = strcspn(++word, ":");
    is_good = take_word(word, length, out);
  }
  if (is_good) return NABLA_OK;
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "the packing '%.40s' is not understood", text);
  nabla_diag_set_next(diag,
                      "give nf4, nf4:32:f16:search, int8, q4_0, q8_0 "
                      "(docs/FORMAT.md lists the names)");
  return status;
}

/* ---- one matrix ---------------------------------------------------------- */

/* A matrix in work, in parts of whole rows that begin with a block. */
typedef struct job {
  const nabla_weight_desc *from, *to;
  const nabla_codec *codec; /* NULL: blocks of GGUF */
  uint64_t rows, parts;     /* rows of a part       */
  float *values;            /* a part for each worker */
  nabla_diag *diags;        /* of each worker         */
  nabla_status *statuses;
} job;

static nabla_status pack_part(const job *j, uint64_t part, float *values,
                              nabla_diag *diag) {
  const nabla_weight_desc *to = j->to;
  const uint64_t first = part * j->rows, left = to->shape[0] - first;
  const uint64_t rows = left < j->rows ? left : j->rows;
  const uint64_t begin = first * to->shape[1];
  const size_t count = (size_t)(rows * to->shape[1]);
  const nabla_weight_component *c = to->components;
  NABLA_TRY(nabla_weight_read(j->from, first, rows, values, diag));
  if (!j->codec) {
    const nabla_ggml *ggml = to->layout.ggml;
    uint8_t *blocks = (uint8_t *)(uintptr_t)c[0].data;
    return nabla_ggml_encode(
        ggml, NABLA_DTYPE_F32, values, count / ggml->elements,
        blocks + begin / ggml->elements * ggml->bytes, NULL, diag);
  }
  const nabla_packed all = {.codes = (uint8_t *)(uintptr_t)c[0].data,
                            .scales = (void *)(uintptr_t)c[1].data};
  const nabla_packed out = nabla_packed_at(j->codec, &all, begin);
  return nabla_encode(j->codec, values, NULL, count, &out, NULL, diag);
}

static void pack_share(void *context, uint32_t worker, uint32_t workers) {
  const job *j = context;
  uint64_t begin, end;
  nabla_pool_split(j->parts, workers, worker, &begin, &end);
  float *values = j->values + worker * j->rows * j->to->shape[1];
  for (uint64_t i = begin; i < end && !j->statuses[worker]; i++)
    j->statuses[worker] = pack_part(j, i, values, &j->diags[worker]);
}

static nabla_status first_failure(const job *j, uint32_t workers,
                                  nabla_diag *diag) {
  for (uint32_t i = 0; i < workers; i++) {
    if (!j->statuses[i]) continue;
    if (diag) *diag = j->diags[i];
    return j->statuses[i];
  }
  return NABLA_OK;
}

static nabla_status run_job(job *j, const nabla_environment *environment,
                            nabla_diag *diag) {
  const nabla_allocator *allocator = environment->allocator;
  const uint32_t workers = nabla_pool_size(environment->pool);
  void *values = NULL, *diags = NULL, *statuses = NULL;
  size_t elements = 0;
  if (!nabla_cast_size(j->rows * j->to->shape[1], &elements) ||
      !nabla_mul_size(elements, workers, &elements))
    return nabla_fail(diag, NABLA_TOO_LARGE, "a row is too long to be packed");
  nabla_status status =
      nabla_alloc_raw(allocator, elements, sizeof *j->values, &values, diag);
  if (!status)
    status = nabla_alloc(allocator, workers, sizeof *j->diags, &diags, diag);
  if (!status)
    status =
        nabla_alloc(allocator, workers, sizeof *j->statuses, &statuses, diag);
  if (!status) {
    j->values = values;
    j->diags = diags;
    j->statuses = statuses;
    nabla_pool_run(environment->pool, pack_share, j);
    status = first_failure(j, workers, diag);
  }
  nabla_free(allocator, values, elements, sizeof *j->values);
  nabla_free(allocator, diags, workers, sizeof *j->diags);
  nabla_free(allocator, statuses, workers, sizeof *j->statuses);
  return status;
}

/* Adds the weight `from`, packed. */
static nabla_status pack(nabla_packed_model *p, const nabla_weight_desc *from,
                         const packing *how,
                         const nabla_environment *environment,
                         nabla_diag *diag) {
  const nabla_codec_options options = {.struct_size = sizeof options,
                                       .search = how->is_searched};
  nabla_weight_desc *to = &p->weights[p->count];
  nabla_codec codec;
  *to = *from;
  to->layout = how->layout;
  NABLA_TRY(
      nabla_weight_components(to, to->components, &to->component_count, diag));
  for (uint32_t i = 0; i < to->component_count; i++) {
    to->components[i].data = nabla_allocations_allocate(
        &p->blocks, p->allocator, to->components[i].bytes);
    if (!to->components[i].data)
      return nabla_fail(diag, NABLA_NO_MEMORY,
                        "no memory for %llu bytes of packed weights",
                        (unsigned long long)to->components[i].bytes);
  }
  const nabla_ggml *ggml = how->layout.ggml;
  const int is_planes = how->layout.kind == NABLA_STORAGE_PLANES || !ggml;
  if (is_planes)
    NABLA_TRY(nabla_codec_select(&to->layout.format, &options, &codec, diag));
  const uint64_t unit = is_planes ? to->layout.format.block : ggml->elements;
  const uint64_t columns = to->shape[1], rows = to->shape[0];
  p->count++;
  if (!rows || !columns) return NABLA_OK;
  job j = {.from = from, .to = to, .codec = is_planes ? &codec : NULL};
  j.rows = PART_ELEMENTS / columns + 1;
  if (unit && columns % unit) j.rows = (j.rows + unit - 1) / unit * unit;
  if (j.rows > rows) j.rows = rows;
  j.parts = (rows + j.rows - 1) / j.rows;
  return run_job(&j, environment, diag);
}

/* ---- the model ----------------------------------------------------------- */

static nabla_status pack_all(nabla_packed_model *p, nabla_model *model,
                             const packing *how,
                             const nabla_environment *environment,
                             nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = nabla_model_borrow_checkpoint(model);
  const size_t count = nabla_checkpoint_count(checkpoint);
  void *weights = NULL;
  NABLA_TRY(
      nabla_alloc(p->allocator, count, sizeof *p->weights, &weights, diag));
  p->weights = weights;
  p->room = count;
  for (size_t i = 0; i < count; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    nabla_weight weight;
    if (tensor.rank != 2 || tensor.layout != NABLA_LAYOUT_DENSE ||
        !nabla_dtype_is_float(tensor.dtype))
      continue;
    NABLA_TRY(nabla_model_find_n(model, tensor.name, tensor.name_length,
                                 &weight, diag));
    const nabla_status status = pack(p, &weight.desc, how, environment, diag);
    if (!status) continue;
    nabla_diag_set_tensor(diag, tensor.name, tensor.name_length);
    return status;
  }
  return NABLA_OK;
}

nabla_status nabla_model_pack(nabla_model *model, const char *how,
                              const nabla_environment *environment,
                              nabla_packed_model **out, nabla_diag *diag) {
  static const nabla_environment defaults = {0};
  packing parsed;
  void *block = NULL;
  NABLA_REQUIRE(model, diag);
  NABLA_REQUIRE(how, diag);
  NABLA_REQUIRE(out, diag);
  if (!environment) environment = &defaults;
  NABLA_TRY(parse(how, &parsed, diag));
  NABLA_TRY(nabla_alloc(environment->allocator, 1, sizeof(nabla_packed_model),
                        &block, diag));
  nabla_packed_model *p = block;
  p->allocator = environment->allocator;
  const nabla_status status = pack_all(p, model, &parsed, environment, diag);
  if (status)
    nabla_packed_model_close(p);
  else
    *out = p;
  return status;
}

const nabla_weight_desc *nabla_packed_model_weights(
    const nabla_packed_model *packed, size_t *out_count) {
  *out_count = packed ? packed->count : 0;
  return packed ? packed->weights : NULL;
}

void nabla_packed_model_close(nabla_packed_model *packed) {
  if (!packed) return;
  const nabla_allocator *allocator = packed->allocator;
  nabla_allocations_clear(&packed->blocks, allocator);
  nabla_free(allocator, packed->weights, packed->room, sizeof *packed->weights);
  nabla_free(allocator, packed, 1, sizeof *packed);
}
