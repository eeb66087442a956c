/* Which layout can hold what, the components of a packed tensor, and their
 * JSON descriptions (docs/FORMAT.md). */
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/json/json.h"
#include "quant/codec/codec.h"
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
  const int narrow = format->encoding->bits == 4;
  if (!format->encoding->in_bitsandbytes)
    return "bitsandbytes has no such encoding";
  if (!nabla_dtype_torch_name(tensor->dtype))
    return "bitsandbytes knows float16, bfloat16 and float32 only";
  if (format->zero_point) return "bitsandbytes has no zero points";
  if (format->segment) return "bitsandbytes lets blocks run on";
  if (format->scale != NABLA_SCALE_F32 &&
      (!narrow || format->scale != NABLA_SCALE_DYNAMIC8))
    return narrow ? "bitsandbytes has scales of f32 and dynamic8"
                  : "LLM.int8 has scales of f32";
  if (narrow && (format->granularity != NABLA_PER_BLOCK ||
                 format->block < BITSANDBYTES_BLOCK_MIN))
    return "bitsandbytes has 4-bit blocks of 32 to 4096";
  if (narrow) /* codes are [(n+1)/2, 1]: of [1, 1] the weight's own shape */
    return tensor->rank == 2 && tensor->elements == 1
               ? "codes of one element would have the shape of the weight"
               : NULL;
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
#include "quant/codec/encodings.def"
#undef ENCODING
  };
  return suffixes[row];
}

uint32_t nabla_layout_version(const nabla_format *format) {
  return format->granularity == NABLA_PER_TENSOR || format->zero_point ||
                 format->segment
             ? 2
             : 1;
}

int nabla_description_is_late(const nabla_format *format, nabla_layout layout) {
  return layout == NABLA_LAYOUT_BITSANDBYTES &&
         format->scale == NABLA_SCALE_DYNAMIC8;
}

/* (B5), (N6) */
static void list_nested(const nabla_tensor *tensor, uint64_t scales,
                        nabla_layout layout, nabla_components *out) {
  const int foreign = layout == NABLA_LAYOUT_BITSANDBYTES;
  const size_t name = tensor->name_length;
  set_vector(
      add(out, NABLA_COMPONENT_NESTED_SCALES, name,
          foreign ? NABLA_SUFFIX_NESTED_ABSMAX : NABLA_SUFFIX_NESTED_SCALES,
          NABLA_DTYPE_F32),
      nabla_ceil_div_u64(scales, NABLA_DYNAMIC8_BLOCK));
  set_vector(add(out, NABLA_COMPONENT_NESTED_MAP, name,
                 foreign ? NABLA_SUFFIX_NESTED_MAP : NABLA_SUFFIX_NESTED_TABLE,
                 NABLA_DTYPE_F32),
             NABLA_DYNAMIC8_CODES);
  if (foreign) return;
  add(out, NABLA_COMPONENT_NESTED_OFFSET, name, NABLA_SUFFIX_NESTED_OFFSET,
      NABLA_DTYPE_F32)
      ->bytes = sizeof(float); /* rank 0 */
}

/* (N4): a vector, of a weight with one dimension a column. Codes never have the
 * shape of their weight: a reader that ignores the description would take them
 * for its values. */
static void set_codes(nabla_component *item, const nabla_tensor *tensor,
                      uint64_t bytes) {
  if (tensor->rank == 1)
    set_column(item, bytes);
  else
    set_vector(item, bytes);
}

/* Codes, scales and zero points of both layouts but for LLM.int8. */
static void list_values(const nabla_tensor *tensor, const nabla_format *format,
                        const nabla_packed_size *size, nabla_layout layout,
                        nabla_components *out) {
  const int foreign = layout == NABLA_LAYOUT_BITSANDBYTES;
  const size_t name = tensor->name_length;
  const nabla_dtype dtype = nabla_code_dtype(format->encoding);
  nabla_component *codes = add(out, NABLA_COMPONENT_CODES, name, "", dtype);
  if (foreign)
    set_column(codes, size->code_bytes);
  else
    set_codes(codes, tensor, size->code_bytes);
  set_vector(add(out, NABLA_COMPONENT_SCALES, name,
                 foreign ? NABLA_SUFFIX_ABSMAX : NABLA_SUFFIX_SCALES,
                 nabla_scale_info_of(format->scale)->dtype),
             size->scales);
  if (format->zero_point)
    set_vector(add(out, NABLA_COMPONENT_ZERO_POINTS, name,
                   NABLA_SUFFIX_ZERO_POINTS, dtype),
               size->scales);
  if (format->scale == NABLA_SCALE_DYNAMIC8)
    list_nested(tensor, size->scales, layout, out);
}

nabla_status nabla_components_of(const nabla_tensor *tensor,
                                 const nabla_format *format,
                                 nabla_layout layout, nabla_components *out,
                                 nabla_diag *diag) {
  nabla_packed_size size;
  NABLA_TRY(nabla_format_size(format, tensor->elements, &size, diag));
  const size_t name = tensor->name_length;
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  out->count = 0;
  if (layout == NABLA_LAYOUT_BITSANDBYTES && format->encoding->bits != 4) {
    list_int8(tensor, size.scales, out);
    return NABLA_OK;
  }
  const int foreign = layout == NABLA_LAYOUT_BITSANDBYTES;
  list_values(tensor, format, &size, layout, out);
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
  NABLA_TRY(nabla_description_write(tensor, format, layout, 0, &json, diag));
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

/* (B4), (B5), keys in bitsandbytes' order. */
static void describe_foreign(nabla_json_out *json, const nabla_tensor *tensor,
                             const nabla_format *format, float offset) {
  nabla_json_out_key(json, "quant_type");
  nabla_json_out_string(json, format->encoding->name);
  nabla_json_out_key(json, "blocksize");
  nabla_json_out_u64(json, format->block);
  nabla_json_out_key(json, "dtype");
  nabla_json_out_string(json, nabla_dtype_torch_name(tensor->dtype));
  put_shape(json, tensor);
  if (format->scale != NABLA_SCALE_DYNAMIC8) return;
  nabla_json_out_key(json, "nested_blocksize");
  nabla_json_out_u64(json, NABLA_DYNAMIC8_BLOCK);
  nabla_json_out_key(json, "nested_dtype");
  nabla_json_out_string(json, "float32");
  nabla_json_out_key(json, "nested_offset");
  nabla_json_out_double(json, (double)offset);
}

/* (N3) */
static void describe_ours(nabla_json_out *json, const nabla_tensor *tensor,
                          const nabla_format *format) {
  nabla_json_out_key(json, "version");
  nabla_json_out_u64(json, nabla_layout_version(format));
  nabla_json_out_key(json, "encoding");
  nabla_json_out_string(json, format->encoding->name);
  nabla_json_out_key(json, "block");
  if (format->granularity == NABLA_PER_ROW)
    nabla_json_out_string(json, "row");
  else if (format->granularity == NABLA_PER_TENSOR)
    nabla_json_out_string(json, "tensor");
  else
    nabla_json_out_u64(json, format->block);
  nabla_json_out_key(json, "scale");
  nabla_json_out_string(json, nabla_scale_info_of(format->scale)->name);
  nabla_json_out_key(json, "dtype");
  nabla_json_out_string(json, nabla_dtype_name(tensor->dtype));
  put_shape(json, tensor);
  if (format->zero_point) {
    nabla_json_out_key(json, "zero_point");
    nabla_json_out_bool(json, 1);
  }
  if (format->segment) {
    nabla_json_out_key(json, "blocks");
    nabla_json_out_string(json, "leading");
  }
}

/* Of a float as nabla_json_out_double writes it: "-1.23456789e-38". */
enum { FLOAT_TEXT = 15 };

nabla_status nabla_description_write(const nabla_tensor *tensor,
                                     const nabla_format *format,
                                     nabla_layout layout, float offset,
                                     nabla_description_text *out,
                                     nabla_diag *diag) {
  out->size = 0;
  nabla_json_out json = {
      .self = out, .write = append, .diag = diag, .spaced = 1};
  nabla_json_out_object(&json);
  if (layout == NABLA_LAYOUT_BITSANDBYTES)
    describe_foreign(&json, tensor, format, offset);
  else
    describe_ours(&json, tensor, format);
  nabla_json_out_object_end(&json);
  NABLA_TRY(nabla_json_out_finish(&json));
  if (!nabla_description_is_late(format, layout)) return NABLA_OK;
  /* The offset is known after the size is written: spaces make up for it. */
  const size_t used = out->size;
  const char *number = (const char *)memrchr(out->data, ' ', used) + 1;
  size_t left = FLOAT_TEXT + 1 - (size_t)(out->data + used - number);
  for (; left > 0; left--) NABLA_TRY(append(out, " ", 1, diag));
  return NABLA_OK;
}
