/* Parses the JSON descriptions of packed tensors (docs/FORMAT.md). They are
 * hostile: every key is known, unique and checked, or the file is refused. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/checked.h"
#include "lib/base/json/json.h"
#include "quant/formats/packed.h"

/* Fields of both descriptions; a bit each, to find repeats and absences. */
typedef enum field {
  FIELD_VERSION,
  FIELD_ENCODING,
  FIELD_BLOCK,
  FIELD_SCALE,
  FIELD_DTYPE,
  FIELD_SHAPE,
  FIELD_ZERO_POINT,
  FIELD_BLOCKS,
  FIELD_NESTED_BLOCK,
  FIELD_NESTED_DTYPE,
  FIELD_NESTED_OFFSET,
  FIELD_NONE,
} field;

static const struct {
  const char *key;
  nabla_layout layout;
  field field;
  uint64_t since; /* version of the Nabla layout */
} known[] = {
    {"quant_type", NABLA_LAYOUT_BITSANDBYTES, FIELD_ENCODING, 0},
    {"blocksize", NABLA_LAYOUT_BITSANDBYTES, FIELD_BLOCK, 0},
    {"dtype", NABLA_LAYOUT_BITSANDBYTES, FIELD_DTYPE, 0},
    {"shape", NABLA_LAYOUT_BITSANDBYTES, FIELD_SHAPE, 0},
    {"nested_blocksize", NABLA_LAYOUT_BITSANDBYTES, FIELD_NESTED_BLOCK, 0},
    {"nested_dtype", NABLA_LAYOUT_BITSANDBYTES, FIELD_NESTED_DTYPE, 0},
    {"nested_offset", NABLA_LAYOUT_BITSANDBYTES, FIELD_NESTED_OFFSET, 0},
    {"version", NABLA_LAYOUT_NABLA, FIELD_VERSION, 0},
    {"encoding", NABLA_LAYOUT_NABLA, FIELD_ENCODING, 0},
    {"block", NABLA_LAYOUT_NABLA, FIELD_BLOCK, 0},
    {"scale", NABLA_LAYOUT_NABLA, FIELD_SCALE, 0},
    {"dtype", NABLA_LAYOUT_NABLA, FIELD_DTYPE, 0},
    {"shape", NABLA_LAYOUT_NABLA, FIELD_SHAPE, 0},
    {"zero_point", NABLA_LAYOUT_NABLA, FIELD_ZERO_POINT, 2},
    {"blocks", NABLA_LAYOUT_NABLA, FIELD_BLOCKS, 2},
};

typedef struct parser {
  nabla_json *json;
  nabla_layout layout;
  const char *encoding; /* from the suffix, or NULL */
  nabla_description *out;
  uint64_t version;
  int leading;
  uint32_t seen;
  nabla_diag *diag;
} parser;

static field field_of(const parser *p, const nabla_json_event *key) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].layout == p->layout && known[i].since <= p->version &&
        strlen(known[i].key) == key->length &&
        !memcmp(known[i].key, key->text, key->length))
      return known[i].field;
  return FIELD_NONE;
}

static nabla_status bad(parser *p, const char *what, const char *text) {
  return nabla_fail(p->diag, NABLA_CORRUPT, "%s '%.40s' in the description",
                    what, text);
}

static void mark_unsupported(nabla_description *out, const char *what,
                             const char *value) {
  if (!out->unsupported[0])
    snprintf(out->unsupported, sizeof out->unsupported,
             "%s '%.40s' is unknown to this version", what, value);
}

static nabla_status take_encoding(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "an encoding name",
                              &event, p->diag));
  if (p->encoding && strcmp(p->encoding, event.text))
    return nabla_fail(p->diag, NABLA_CORRUPT,
                      "quant_type '%.40s' contradicts the suffix '%.8s'",
                      event.text, p->encoding);
  p->out->format.encoding = nabla_encoding_find(event.text);
  if (!p->out->format.encoding)
    mark_unsupported(p->out, "encoding", event.text);
  return NABLA_OK;
}

static nabla_status take_block(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  if (event.kind == NABLA_JSON_STRING && p->layout == NABLA_LAYOUT_NABLA &&
      !strcmp(event.text, "row")) {
    p->out->format.granularity = NABLA_PER_ROW;
    return NABLA_OK;
  }
  if (event.kind == NABLA_JSON_STRING && p->version >= 2 &&
      !strcmp(event.text, "tensor")) {
    p->out->format.granularity = NABLA_PER_TENSOR;
    return NABLA_OK;
  }
  if (event.kind != NABLA_JSON_NUMBER)
    return nabla_fail(p->diag, NABLA_CORRUPT, "the block size is no number");
  p->out->format.granularity = NABLA_PER_BLOCK;
  return nabla_json_u64(&event, "block size", &p->out->format.block, p->diag);
}

/* PyTorch's names in bitsandbytes' description, safetensors' in ours. */
static nabla_status take_dtype(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "a dtype", &event,
                              p->diag));
  if (p->layout == NABLA_LAYOUT_NABLA) {
    nabla_dtype dtype;
    if (nabla_dtype_find(event.text, event.length, &dtype, NULL) ||
        !nabla_dtype_is_float(dtype))
      return bad(p, "bad dtype", event.text);
    p->out->dtype = dtype;
    return NABLA_OK;
  }
  for (int i = 0; i < NABLA_DTYPE_COUNT; i++) {
    const char *name = nabla_dtype_torch_name((nabla_dtype)i);
    if (name && !strcmp(name, event.text)) {
      p->out->dtype = (nabla_dtype)i;
      return NABLA_OK;
    }
  }
  return bad(p, "bad dtype", event.text);
}

static nabla_status take_shape(parser *p) {
  nabla_description *out = p->out;
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_ARRAY_BEGIN, "a shape",
                              &event, p->diag));
  out->rank = 0;
  out->elements = 1;
  for (;;) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_NUMBER)
      return nabla_fail(p->diag, NABLA_CORRUPT, "a dimension is no number");
    if (out->rank == NABLA_TENSOR_FILE_MAX_RANK)
      return nabla_fail(p->diag, NABLA_TOO_LARGE, "more than %u dimensions",
                        NABLA_TENSOR_FILE_MAX_RANK);
    uint64_t *dim = &out->shape[out->rank++];
    NABLA_TRY(nabla_json_u64(&event, "dimension", dim, p->diag));
    if (!nabla_mul_u64(out->elements, *dim, &out->elements))
      return nabla_fail(p->diag, NABLA_TOO_LARGE, "the shape overflows");
  }
}

static nabla_status take_scale(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "a scale type",
                              &event, p->diag));
  nabla_scale_type type;
  if (!nabla_scale_type_find(event.text, &type) ||
      strcmp(nabla_scale_info_of(type)->name, event.text) != 0)
    mark_unsupported(p->out, "scale type", event.text);
  else
    p->out->format.scale = type;
  return NABLA_OK;
}

/* A version 2 key that says what is otherwise: it has one value. */
static nabla_status take_zero_point(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_TRUE, "true as zero_point",
                              &event, p->diag));
  p->out->format.zero_point = 1;
  return NABLA_OK;
}

static nabla_status take_blocks(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "how blocks lie",
                              &event, p->diag));
  if (strcmp(event.text, "leading") != 0) return bad(p, "blocks", event.text);
  p->leading = 1;
  return NABLA_OK;
}

static nabla_status take_version(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_NUMBER, "a version", &event,
                              p->diag));
  return nabla_json_u64(&event, "version", &p->version, p->diag);
}

static nabla_status take_nested_block(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_NUMBER, "a nested_blocksize",
                              &event, p->diag));
  uint64_t *block = &p->out->nested_block;
  NABLA_TRY(nabla_json_u64(&event, "nested_blocksize", block, p->diag));
  if (*block < NABLA_BLOCK_MIN || *block > NABLA_BLOCK_MAX ||
      (*block & (*block - 1)) != 0)
    mark_unsupported(p->out, "nested_blocksize", event.text);
  return NABLA_OK;
}

static nabla_status take_nested_dtype(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "a nested_dtype",
                              &event, p->diag));
  if (strcmp(event.text, "float32") != 0)
    mark_unsupported(p->out, "nested_dtype", event.text);
  return NABLA_OK;
}

static nabla_status take_nested_offset(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_NUMBER, "a nested_offset",
                              &event, p->diag));
  p->out->nested_offset = (float)nabla_c_strtod(event.text, NULL);
  return isfinite(p->out->nested_offset)
             ? NABLA_OK
             : bad(p, "infinite nested_offset", event.text);
}

static nabla_status take_field(parser *p, field which) {
  switch (which) {
    case FIELD_VERSION:
      return take_version(p);
    case FIELD_ENCODING:
      return take_encoding(p);
    case FIELD_BLOCK:
      return take_block(p);
    case FIELD_SCALE:
      return take_scale(p);
    case FIELD_DTYPE:
      return take_dtype(p);
    case FIELD_SHAPE:
      return take_shape(p);
    case FIELD_ZERO_POINT:
      return take_zero_point(p);
    case FIELD_BLOCKS:
      return take_blocks(p);
    case FIELD_NESTED_BLOCK:
      return take_nested_block(p);
    case FIELD_NESTED_DTYPE:
      return take_nested_dtype(p);
    case FIELD_NESTED_OFFSET:
      return take_nested_offset(p);
    case FIELD_NONE:
      break;
  }
  return NABLA_OK;
}

/* A newer version may mean anything by its keys: they are read past (N2). */
static nabla_status take_unknown(parser *p, const nabla_json_event *key) {
  if (p->layout != NABLA_LAYOUT_NABLA || p->version <= NABLA_LAYOUT_VERSION)
    return bad(p, "unknown key", key->text);
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  return nabla_json_skip(p->json, &event, p->diag);
}

static nabla_status take_object(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_OBJECT_BEGIN, "a description",
                              &event, p->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) break;
    const field which = field_of(p, &event);
    if (which == FIELD_NONE || (p->version > NABLA_LAYOUT_VERSION)) {
      NABLA_TRY(take_unknown(p, &event));
      continue;
    }
    const uint32_t bit = 1u << which;
    if (p->seen & bit) return bad(p, "repeated key", event.text);
    p->seen |= bit;
    NABLA_TRY(take_field(p, which));
    /* (N3): version comes first, since it decides how the rest is read. */
    if (p->layout == NABLA_LAYOUT_NABLA && !(p->seen & 1u << FIELD_VERSION))
      return nabla_fail(p->diag, NABLA_CORRUPT,
                        "the description does not begin with its version");
  }
  return nabla_json_expect(p->json, NABLA_JSON_END, "the end", &event, p->diag);
}

static nabla_status check(parser *p) {
  nabla_description *out = p->out;
  if (p->version > NABLA_LAYOUT_VERSION) {
    out->format.encoding = NULL;
    snprintf(out->unsupported, sizeof out->unsupported,
             "layout version %" PRIu64 " is newer than this build's %u",
             p->version, NABLA_LAYOUT_VERSION);
    return NABLA_OK;
  }
  const uint32_t common = 1u << FIELD_ENCODING | 1u << FIELD_BLOCK |
                          1u << FIELD_DTYPE | 1u << FIELD_SHAPE;
  const uint32_t nested = 1u << FIELD_NESTED_BLOCK | 1u << FIELD_NESTED_DTYPE |
                          1u << FIELD_NESTED_OFFSET;
  const uint32_t needed = p->layout == NABLA_LAYOUT_NABLA
                              ? common | 1u << FIELD_VERSION | 1u << FIELD_SCALE
                          : p->seen & nested ? common | nested
                                             : common;
  if (p->seen & nested) out->format.scale = NABLA_SCALE_DYNAMIC8;
  if ((p->seen & needed) != needed)
    return nabla_fail(p->diag, NABLA_CORRUPT, "the description lacks a key");
  if (p->layout == NABLA_LAYOUT_NABLA && p->version == 0)
    return nabla_fail(p->diag, NABLA_CORRUPT, "layout version 0");
  if (out->format.granularity == NABLA_PER_TENSOR)
    out->format.block = out->elements;
  if (out->rank == 0 || out->shape[0] == 0) return NABLA_OK;
  if (out->format.granularity == NABLA_PER_ROW)
    out->format.block = out->elements / out->shape[0];
  if (p->leading) out->format.segment = out->elements / out->shape[0];
  return NABLA_OK;
}

nabla_status nabla_description_parse(const nabla_allocator *allocator,
                                     const nabla_description_source *source,
                                     nabla_description *out, nabla_diag *diag) {
  nabla_description result = {.dtype = NABLA_DTYPE_F32};
  parser p = {.layout = source->layout,
              .encoding = source->encoding,
              .out = &result,
              .diag = diag};
  NABLA_TRY(nabla_json_create_span(allocator, source->text, source->size,
                                   source->origin, &p.json, diag));
  nabla_status status = take_object(&p);
  if (!status) status = check(&p);
  nabla_json_destroy(p.json);
  if (!status) *out = result;
  return status;
}
