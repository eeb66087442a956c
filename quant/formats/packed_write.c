/* Which layout can hold what, the components of a packed tensor, and their
 * JSON descriptions (docs/FORMAT.md). */
#include <string.h>

#include "lib/base/json.h"
#include "quant/codec.h"
#include "quant/formats/packed.h"

/* bitsandbytes' kernels know the powers of two from 32 (backends/cuda/ops.py,
 * dequantize_4bit: "blocksize not in (32, 64, ..., 4096)"). */
enum { BITSANDBYTES_BLOCK_MIN = 32 };

static int ends_in_weight(const nabla_tensor *tensor) {
  static const char tail[] = ".weight";
  const size_t size = sizeof tail - 1;
  return tensor->name_length > size &&
         !memcmp(tensor->name + tensor->name_length - size, tail, size);
}

static const char *bitsandbytes_objection(const nabla_tensor *tensor,
                                          const nabla_format *format) {
  if (!format->encoding->in_bitsandbytes)
    return "bitsandbytes has no such encoding";
  if (!nabla_dtype_torch_name(tensor->dtype))
    return "bitsandbytes knows float16, bfloat16 and float32 only";
  if (format->encoding->bits == 4)
    return format->granularity == NABLA_PER_BLOCK &&
                   format->block >= BITSANDBYTES_BLOCK_MIN
               ? NULL
               : "bitsandbytes has 4-bit blocks of 32 to 4096";
  if (format->granularity != NABLA_PER_ROW)
    return "LLM.int8 has one scale per row, not per block";
  if (tensor->rank != 2) return "LLM.int8 holds matrices only";
  if (!ends_in_weight(tensor))
    return "LLM.int8 needs a name that ends in .weight";
  return NULL;
}

const char *nabla_layout_objection(nabla_layout layout,
                                   const nabla_tensor *tensor,
                                   const nabla_format *format) {
  if (layout == NABLA_LAYOUT_BITSANDBYTES)
    return bitsandbytes_objection(tensor, format);
  return NULL;
}

static nabla_component *add(nabla_components *out, nabla_component_kind kind,
                            size_t stem, const char *suffix,
                            nabla_dtype dtype) {
  nabla_component *item = &out->item[out->count++];
  *item = (nabla_component){
      .kind = kind, .stem = stem, .suffix = suffix, .dtype = dtype};
  item->shape = item->own_shape;
  return item;
}

static void set_vector(nabla_component *item, uint64_t count) {
  item->rank = 1;
  item->own_shape[0] = count;
  item->bytes = count * (nabla_dtype_bits(item->dtype) / 8);
}

/* bitsandbytes keeps 4-bit codes as a column: [(n+1)/2, 1] (B2). */
static void set_column(nabla_component *item, uint64_t count) {
  set_vector(item, count);
  item->rank = 2;
  item->own_shape[1] = 1;
}

static void set_like(nabla_component *item, const nabla_tensor *tensor) {
  item->rank = tensor->rank;
  item->shape = tensor->shape;
  item->bytes = tensor->elements;
}

static void list_int8(const nabla_tensor *tensor, uint64_t scales,
                      nabla_components *out) {
  const size_t stem = tensor->name_length - strlen(NABLA_SUFFIX_WEIGHT);
  set_like(
      add(out, NABLA_COMPONENT_CODES, tensor->name_length, "", NABLA_DTYPE_I8),
      tensor);
  set_vector(
      add(out, NABLA_COMPONENT_SCALES, stem, NABLA_SUFFIX_SCB, NABLA_DTYPE_F32),
      scales);
  nabla_component *mark = add(out, NABLA_COMPONENT_ROW_FORMAT, stem,
                              NABLA_SUFFIX_ROW_FORMAT, NABLA_DTYPE_U8);
  mark->bytes = 1; /* a scalar: rank 0 (I3) */
}

const char *nabla_state_suffix(size_t row) {
  static const char *const suffixes[] = {
#define ENCODING(id, ...) NABLA_SUFFIX_STATE #id,
#include "quant/encodings.def"
#undef ENCODING
  };
  return suffixes[row];
}

nabla_status nabla_components_of(const nabla_tensor *tensor,
                                 const nabla_format *format,
                                 nabla_layout layout, nabla_components *out,
                                 nabla_diag *diag) {
  nabla_packed_size size;
  NABLA_TRY(nabla_format_size(format, tensor->elements, &size, diag));
  const int narrow = format->encoding->bits == 4;
  const size_t name = tensor->name_length;
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  out->count = 0;
  if (layout == NABLA_LAYOUT_BITSANDBYTES && !narrow) {
    list_int8(tensor, size.scales, out);
    return NABLA_OK;
  }
  const int foreign = layout == NABLA_LAYOUT_BITSANDBYTES;
  nabla_component *codes = add(out, NABLA_COMPONENT_CODES, name, "",
                               narrow ? NABLA_DTYPE_U8 : NABLA_DTYPE_I8);
  if (foreign)
    set_column(codes, size.code_bytes);
  else if (narrow)
    set_vector(codes, size.code_bytes);
  else
    set_like(codes, tensor);
  set_vector(
      add(out, NABLA_COMPONENT_SCALES, name,
          foreign ? NABLA_SUFFIX_ABSMAX : NABLA_SUFFIX_SCALES, NABLA_DTYPE_F32),
      size.scales);
  if (foreign)
    set_vector(add(out, NABLA_COMPONENT_TABLE, name, NABLA_SUFFIX_MAP,
                   NABLA_DTYPE_F32),
               NABLA_TABLE_VALUES);
  nabla_component *text =
      add(out, NABLA_COMPONENT_DESCRIPTION, name,
          foreign ? nabla_state_suffix((size_t)(format->encoding - rows))
                  : NABLA_SUFFIX_FORMAT,
          NABLA_DTYPE_U8);
  nabla_description_text json;
  NABLA_TRY(nabla_description_write(tensor, format, layout, &json, diag));
  set_vector(text, json.size);
  return NABLA_OK;
}

static nabla_status append(void *self, const void *data, size_t size,
                           nabla_diag *diag) {
  nabla_description_text *text = self;
  if (size > sizeof text->data - text->size)
    return nabla_fail(diag, NABLA_TOO_LARGE, "the description is too long");
  memcpy(text->data + text->size, data, size);
  text->size += size;
  return NABLA_OK;
}

static void put_shape(nabla_json_out *json, const nabla_tensor *tensor) {
  nabla_json_out_key(json, "shape");
  nabla_json_out_array(json);
  for (uint32_t i = 0; i < tensor->rank; i++)
    nabla_json_out_u64(json, tensor->shape[i]);
  nabla_json_out_array_end(json);
}

nabla_status nabla_description_write(const nabla_tensor *tensor,
                                     const nabla_format *format,
                                     nabla_layout layout,
                                     nabla_description_text *out,
                                     nabla_diag *diag) {
  out->size = 0;
  nabla_json_out json = {
      .self = out, .write = append, .diag = diag, .spaced = 1};
  nabla_json_out_object(&json);
  if (layout == NABLA_LAYOUT_BITSANDBYTES) { /* (B4), keys in its order */
    nabla_json_out_key(&json, "quant_type");
    nabla_json_out_string(&json, format->encoding->name);
    nabla_json_out_key(&json, "blocksize");
    nabla_json_out_u64(&json, format->block);
    nabla_json_out_key(&json, "dtype");
    nabla_json_out_string(&json, nabla_dtype_torch_name(tensor->dtype));
  } else { /* (N3) */
    nabla_json_out_key(&json, "version");
    nabla_json_out_u64(&json, NABLA_LAYOUT_VERSION);
    nabla_json_out_key(&json, "encoding");
    nabla_json_out_string(&json, format->encoding->name);
    nabla_json_out_key(&json, "block");
    if (format->granularity == NABLA_PER_ROW)
      nabla_json_out_string(&json, "row");
    else
      nabla_json_out_u64(&json, format->block);
    nabla_json_out_key(&json, "scale");
    nabla_json_out_string(&json, "F32");
    nabla_json_out_key(&json, "dtype");
    nabla_json_out_string(&json, nabla_dtype_name(tensor->dtype));
  }
  put_shape(&json, tensor);
  nabla_json_out_object_end(&json);
  return nabla_json_out_finish(&json);
}
