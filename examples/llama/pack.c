/* --encoding: packs weights in memory, as nabla-quant would in a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

/* NAME[:BLOCK[:SCALE]] as a layout; blocks of GGUF have one form. */
static nabla_status parse(const char *text, nabla_storage *out,
                          nabla_diag *diag) {
  char name[32] = "";
  unsigned long block = 64;
  const char *rest = strchr(text, ':');
  const size_t length = rest ? (size_t)(rest - text) : strlen(text);
  if (length < sizeof name) memcpy(name, text, length);
  const nabla_ggml *ggml = nabla_ggml_find(name);
  const nabla_encoding *encoding = nabla_encoding_find(name);
  if (ggml && ggml->can_encode && !rest) {
    *out = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS, .ggml = ggml};
    return NABLA_OK;
  }
  nabla_scale_type scale = NABLA_SCALE_F32;
  char *end = NULL;
  if (rest) block = strtoul(rest + 1, &end, 10);
  if (end && !strcmp(end, ":f16"))
    scale = NABLA_SCALE_F16;
  else if (end && *end)
    encoding = NULL;
  if (!encoding) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "--encoding '%.40s' is not understood", text);
    nabla_diag_set_next(diag,
                        "give none, nf4, nf4:32, nf4:32:f16, int8, q4_0, q8_0 "
                        "(nabla-quant encodings lists the names)");
    return status;
  }
  *out = (nabla_storage){
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = encoding,
                 .block = encoding->is_mx ? NABLA_BLOCK_MX : block,
                 .scale = encoding->is_mx ? NABLA_SCALE_E8M0 : scale}};
  return NABLA_OK;
}

static nabla_status encode(const nabla_weight_desc *to, const float *values,
                           void *const *blocks, nabla_diag *diag) {
  const uint64_t count = to->shape[0] * to->shape[1];
  if (to->layout.kind == NABLA_STORAGE_BLOCKS)
    return nabla_ggml_encode(to->layout.ggml, NABLA_DTYPE_F32, values,
                             count / to->layout.ggml->elements, blocks[0], NULL,
                             diag);
  nabla_codec codec;
  NABLA_TRY(nabla_codec_select(&to->layout.format, NULL, &codec, diag));
  const nabla_packed out = {.codes = blocks[0], .scales = blocks[1]};
  return nabla_encode(&codec, values, NULL, count, &out, NULL, diag);
}

/* One matrix, `from` dense. */
static nabla_status pack(engine *e, const nabla_weight_desc *from,
                         const nabla_storage *layout, nabla_diag *diag) {
  nabla_weight_desc *to = &e->packed[e->packed_count];
  packed_weight *data = &e->packed_data[e->packed_count++];
  *to = *from;
  to->layout = *layout;
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
  if (!status) status = encode(to, values, data->blocks, diag);
  free(values);
  return status;
}

nabla_status pack_weights(engine *e, const char *encoding, nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = nabla_model_borrow_checkpoint(e->model);
  const size_t count = nabla_checkpoint_count(checkpoint);
  nabla_storage layout;
  NABLA_TRY(parse(encoding, &layout, diag));
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
    const nabla_status status = pack(e, &weight.desc, &layout, diag);
    nabla_diag_set_tensor(status ? diag : NULL, tensor.name,
                          tensor.name_length);
    if (status) return status;
  }
  return NABLA_OK;
}
