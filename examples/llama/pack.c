/* --encoding: packs weights in memory, as nabla-quant would in a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

/* How all matrices are packed. */
typedef struct packing {
  nabla_storage layout;
  int is_searched;
} packing;

/* One word behind the name: a block, f16, or search. */
static int take_word(const char *word, size_t length, packing *out) {
  char *end;
  if (length == 3 && !memcmp(word, "f16", 3))
    return out->layout.format.scale = NABLA_SCALE_F16, 1;
  if (length == 6 && !memcmp(word, "search", 6)) return out->is_searched = 1, 1;
  out->layout.format.block = strtoul(word, &end, 10);
  return end == word + length && length;
}

/* NAME[:BLOCK][:f16][:search]; blocks of GGUF have one form. */
static nabla_status parse(const char *text, packing *out, nabla_diag *diag) {
  char name[32] = "";
  size_t length = strcspn(text, ":");
  if (length < sizeof name) memcpy(name, text, length);
  const nabla_encoding *encoding = nabla_encoding_find(name);
  const nabla_ggml *ggml = nabla_ggml_find(name);
  int is_good = encoding != NULL || (ggml && ggml->can_encode && !text[length]);
  *out = (packing){
      .layout = {
          .kind = NABLA_STORAGE_PLANES,
          .format = {.encoding = encoding,
                     .block = encoding && encoding->is_mx ? NABLA_BLOCK_MX : 64,
                     .scale = encoding && encoding->is_mx ? NABLA_SCALE_E8M0
                                                          : NABLA_SCALE_F32}}};
  if (!encoding)
    out->layout = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS, .ggml = ggml};
  for (const char *word = text + length; *word && is_good; word += length) {
    length = strcspn(++word, ":");
    is_good = take_word(word, length, out);
  }
  if (is_good) return NABLA_OK;
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "--encoding '%.40s' is not understood", text);
  nabla_diag_set_next(diag,
                      "give none, nf4, nf4:32:f16:search, int8, q4_0, q8_0 "
                      "(docs/FORMAT.md lists the names)");
  return status;
}

static nabla_status encode(const nabla_weight_desc *to, int is_searched,
                           const float *values, void *const *blocks,
                           nabla_diag *diag) {
  const nabla_codec_options options = {.struct_size = sizeof options,
                                       .search = is_searched};
  const uint64_t count = to->shape[0] * to->shape[1];
  if (to->layout.ggml)
    return nabla_ggml_encode(to->layout.ggml, NABLA_DTYPE_F32, values,
                             count / to->layout.ggml->elements, blocks[0], NULL,
                             diag);
  nabla_codec codec;
  NABLA_TRY(nabla_codec_select(&to->layout.format, &options, &codec, diag));
  const nabla_packed out = {.codes = blocks[0], .scales = blocks[1]};
  return nabla_encode(&codec, values, NULL, count, &out, NULL, diag);
}

/* One matrix, `from` dense. */
static nabla_status pack(engine *e, const nabla_weight_desc *from,
                         const packing *how, nabla_diag *diag) {
  nabla_weight_desc *to = &e->packed[e->packed_count];
  packed_weight *data = &e->packed_data[e->packed_count++];
  *to = *from;
  to->layout = how->layout;
  NABLA_TRY(
      nabla_weight_components(to, to->components, &to->component_count, diag));
  for (uint32_t i = 0; i < to->component_count; i++) {
    data->blocks[i] =
        aligned_alloc(64, (to->components[i].bytes + 127) / 64 * 64);
    if (!data->blocks[i])
      return nabla_fail(diag, NABLA_NO_MEMORY, "no memory to pack weights");
    to->components[i].data = data->blocks[i];
  }
  float *values = malloc(from->shape[0] * from->shape[1] * sizeof *values + 1);
  if (!values)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory to pack weights");
  nabla_status status =
      nabla_weight_read(from, 0, from->shape[0], values, diag);
  if (!status)
    status = encode(to, how->is_searched, values, data->blocks, diag);
  free(values);
  return status;
}

nabla_status pack_weights(engine *e, const char *encoding, nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = nabla_model_borrow_checkpoint(e->model);
  const size_t count = nabla_checkpoint_count(checkpoint);
  packing how;
  NABLA_TRY(parse(encoding, &how, diag));
  e->packed = calloc(count + 1, sizeof *e->packed);
  e->packed_data = calloc(count + 1, sizeof *e->packed_data);
  if (!e->packed || !e->packed_data)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory to pack weights");
  for (size_t i = 0; i < count; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    nabla_weight weight;
    if (tensor.rank != 2 || tensor.layout != NABLA_LAYOUT_DENSE) continue;
    NABLA_TRY(nabla_model_find_n(e->model, tensor.name, tensor.name_length,
                                 &weight, diag));
    const nabla_status status = pack(e, &weight.desc, &how, diag);
    nabla_diag_set_tensor(status ? diag : NULL, tensor.name,
                          tensor.name_length);
    if (status) return status;
  }
  return NABLA_OK;
}
