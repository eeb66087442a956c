/* The JSON header of a safetensors file, read event by event: what is kept is
 * copied into arenas, everything else passes through a window. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/checked.h"
#include "lib/base/json/json.h"
#include "quant/formats/safetensors_internal.h"

enum { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4, ALL_FIELDS = 7 };

typedef struct parser {
  nabla_safetensors *file;
  nabla_json *json;
  uint64_t at, left;   /* the header's bytes not yet read              */
  uint64_t may_ignore; /* bytes that unknown fields may still take     */
  nabla_diag *diag;
} parser;

static nabla_status fail_at(nabla_diag *diag, uint64_t offset,
                            nabla_status code, const char *what) {
  nabla_status status = nabla_fail(diag, code, "%s", what);
  nabla_diag_set_offset(diag, offset);
  return status;
}

static nabla_status read_window(void *self, void *out, size_t size,
                                size_t *out_got, nabla_diag *diag) {
  parser *p = self;
  if (size > p->left) size = (size_t)p->left;
  if (size > 0) {
    NABLA_TRY(nabla_file_read(p->file->base.file, p->at, out, size, diag));
  }
  p->at += size;
  p->left -= size;
  *out_got = size;
  return NABLA_OK;
}

nabla_status nabla_safetensors_size(nabla_dtype dtype, const uint64_t *shape,
                                    uint32_t rank, uint64_t *out_elements,
                                    uint64_t *out_bytes, nabla_diag *diag) {
  uint64_t elements = 1, bits;
  int fits = 1;
  for (uint32_t i = 0; fits && i < rank; i++) {
    fits = nabla_mul_u64(elements, shape[i], &elements);
  }
  if (!fits || !nabla_mul_u64(elements, nabla_dtype_bits(dtype), &bits)) {
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "the product of the shape, in bits of %s, overflows",
                      nabla_dtype_name(dtype));
  }
  if (bits % 8 != 0) {
    return nabla_fail(diag, NABLA_CORRUPT,
                      "%" PRIu64 " elements of %s are no whole number of bytes",
                      elements, nabla_dtype_name(dtype));
  }
  *out_elements = elements;
  *out_bytes = bits / 8;
  return NABLA_OK;
}

/* Appends text and a NUL to an arena; *out is where it starts. */
static nabla_status keep(nabla_buffer *arena, const nabla_json_event *event,
                         uint32_t *out, nabla_diag *diag) {
  uint32_t start = (uint32_t)arena->size; /* limits are below 2^32 */
  NABLA_TRY(nabla_buffer_append(arena, event->text, event->length + 1, diag));
  *out = start;
  return NABLA_OK;
}

static nabla_status parse_dtype(parser *p, nabla_safetensors_record *record) {
  nabla_json_event event;
  nabla_dtype dtype;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "the name of a dtype",
                              &event, p->diag));
  nabla_status status =
      nabla_dtype_find(event.text, event.length, &dtype, p->diag);
  if (status) {
    nabla_diag_set_offset(p->diag, event.offset);
    return status;
  }
  record->dtype = (uint8_t)dtype;
  return NABLA_OK;
}

static nabla_status parse_shape(parser *p, nabla_safetensors_record *record) {
  nabla_buffer *shapes = &p->file->shapes;
  uint64_t dimensions[NABLA_TENSOR_FILE_MAX_RANK];
  nabla_json_u64s array = {.values = dimensions,
                           .most = NABLA_TENSOR_FILE_MAX_RANK};
  nabla_json_event event;
  record->shape = (uint32_t)(shapes->size / sizeof(uint64_t));
  if (nabla_json_take_u64s(p->json, &array)) {
    record->rank = (uint8_t)array.count;
    return nabla_buffer_append(shapes, dimensions,
                               array.count * sizeof *dimensions, p->diag);
  }
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_ARRAY_BEGIN,
                              "an array of dimensions", &event, p->diag));
  for (uint32_t rank = 0;; rank++) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) {
      record->rank = (uint8_t)rank;
      return NABLA_OK;
    }
    if (rank == NABLA_TENSOR_FILE_MAX_RANK) {
      nabla_status status =
          nabla_fail(p->diag, NABLA_TOO_LARGE, "more than %u dimensions",
                     NABLA_TENSOR_FILE_MAX_RANK);
      nabla_diag_set_offset(p->diag, event.offset);
      return status;
    }
    uint64_t dimension;
    NABLA_TRY(nabla_json_u64(&event, "a dimension", &dimension, p->diag));
    NABLA_TRY(
        nabla_buffer_append(shapes, &dimension, sizeof dimension, p->diag));
  }
}

/* Reads the two offsets event by event; *out_start is where the array is. */
static nabla_status read_offsets(parser *p, nabla_safetensors_record *record,
                                 uint64_t *out_start) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_ARRAY_BEGIN,
                              "an array of two offsets", &event, p->diag));
  *out_start = event.offset;
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  NABLA_TRY(nabla_json_u64(&event, "the first of data_offsets", &record->begin,
                           p->diag));
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  NABLA_TRY(nabla_json_u64(&event, "the second of data_offsets", &record->end,
                           p->diag));
  return nabla_json_expect(p->json, NABLA_JSON_ARRAY_END,
                           "no more than two data_offsets", &event, p->diag);
}

static nabla_status parse_offsets(parser *p, nabla_safetensors_record *record) {
  uint64_t both[2];
  nabla_json_u64s array = {.values = both, .least = 2, .most = 2};
  if (nabla_json_take_u64s(p->json, &array)) {
    record->begin = both[0];
    record->end = both[1];
  } else {
    NABLA_TRY(read_offsets(p, record, &array.offset));
  }
  if (record->begin <= record->end) return NABLA_OK;
  return fail_at(p->diag, array.offset, NABLA_CORRUPT,
                 "data_offsets run backwards");
}

/* Returns 0 for a name that is no field. */
static unsigned field_of(const nabla_json_event *key) {
  static const struct {
    const char *name;
    size_t length;
    unsigned field;
  } fields[] = {{"dtype", 5, FIELD_DTYPE},
                {"shape", 5, FIELD_SHAPE},
                {"data_offsets", 12, FIELD_OFFSETS}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (key->length == fields[i].length &&
        memcmp(key->text, fields[i].name, key->length) == 0) {
      return fields[i].field;
    }
  }
  return 0;
}

/* The reference reader refuses numbers that a double cannot hold, also where
 * it ignores them. At most 64 characters long, only an exponent makes them. */
static int is_beyond_double(const nabla_json_event *event) {
  return event->kind == NABLA_JSON_NUMBER && strpbrk(event->text, "eE") &&
         isinf(nabla_c_strtod(event->text, NULL));
}

/* The reference reader ignores fields that it does not know (a serde struct
 * without deny_unknown_fields), so that the format can grow. Here the bytes of
 * all of them together are bounded, and so is the time that they take. */
static nabla_status ignore_value(parser *p, uint64_t start) {
  nabla_json_event event;
  uint32_t depth = 0;
  do {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.offset - start > p->may_ignore) {
      return fail_at(p->diag, start, NABLA_TOO_LARGE,
                     "fields other than dtype, shape and data_offsets take "
                     "too many bytes");
    }
    if (is_beyond_double(&event)) {
      return fail_at(p->diag, event.offset, NABLA_CORRUPT,
                     "a number is out of range");
    }
    if (event.kind == NABLA_JSON_OBJECT_BEGIN ||
        event.kind == NABLA_JSON_ARRAY_BEGIN) {
      depth++;
    } else if (event.kind == NABLA_JSON_OBJECT_END ||
               event.kind == NABLA_JSON_ARRAY_END) {
      depth--;
    }
  } while (depth > 0);
  p->may_ignore -= event.offset - start;
  return NABLA_OK;
}

static nabla_status parse_field(parser *p, const nabla_json_event *key,
                                nabla_safetensors_record *record,
                                unsigned *seen) {
  unsigned field = field_of(key);
  if (field & *seen) {
    return fail_at(p->diag, key->offset, NABLA_CORRUPT,
                   field == FIELD_DTYPE   ? "a second 'dtype'"
                   : field == FIELD_SHAPE ? "a second 'shape'"
                                          : "a second 'data_offsets'");
  }
  *seen |= field;
  if (field == FIELD_DTYPE) return parse_dtype(p, record);
  if (field == FIELD_SHAPE) return parse_shape(p, record);
  if (field == FIELD_OFFSETS) return parse_offsets(p, record);
  return ignore_value(p, key->offset);
}

static nabla_status check_record(const parser *p,
                                 const nabla_safetensors_record *record,
                                 unsigned seen) {
  if (seen != ALL_FIELDS) {
    return fail_at(p->diag, record->at, NABLA_CORRUPT,
                   !(seen & FIELD_DTYPE)   ? "has no 'dtype'"
                   : !(seen & FIELD_SHAPE) ? "has no 'shape'"
                                           : "has no 'data_offsets'");
  }
  const uint64_t *shapes = (const void *)p->file->shapes.data;
  const uint64_t *shape = record->rank > 0 ? shapes + record->shape : NULL;
  uint64_t elements, bytes;
  nabla_status status =
      nabla_safetensors_size((nabla_dtype)record->dtype, shape, record->rank,
                             &elements, &bytes, p->diag);
  if (!status && bytes != record->end - record->begin) {
    status = nabla_fail(p->diag, NABLA_CORRUPT,
                        "data_offsets span %" PRIu64
                        " bytes; dtype and shape need %" PRIu64,
                        record->end - record->begin, bytes);
  }
  if (status) nabla_diag_set_offset(p->diag, record->at);
  return status;
}

static nabla_status parse_tensor(parser *p, nabla_safetensors_record *record) {
  nabla_json_event event;
  unsigned seen = 0;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_OBJECT_BEGIN,
                              "an object with dtype, shape and data_offsets",
                              &event, p->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) break;
    NABLA_TRY(parse_field(p, &event, record, &seen));
  }
  NABLA_TRY(check_record(p, record, seen));
  return nabla_buffer_append(&p->file->records, record, sizeof *record,
                             p->diag);
}

static nabla_status parse_named_tensor(parser *p, const nabla_json_event *key) {
  nabla_safetensors_record record = {.at = (uint32_t)key->offset};
  if (key->length > NABLA_TENSOR_FILE_MAX_NAME) {
    nabla_status status = nabla_fail(
        p->diag, NABLA_TOO_LARGE, "a tensor name of %zu bytes; the limit is %u",
        key->length, NABLA_TENSOR_FILE_MAX_NAME);
    nabla_diag_set_offset(p->diag, key->offset);
    return status;
  }
  record.name_length = (uint16_t)key->length;
  NABLA_TRY(keep(&p->file->names, key, &record.name, p->diag));
  nabla_status status = parse_tensor(p, &record);
  if (status) {
    nabla_diag_set_tensor(p->diag, nabla_safetensors_name_of(p->file, &record),
                          record.name_length);
  }
  return status;
}

static nabla_status parse_metadata(parser *p) {
  nabla_safetensors *file = p->file;
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_OBJECT_BEGIN,
                              "an object of strings as __metadata__", &event,
                              p->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    nabla_safetensors_pair pair = {.at = (uint32_t)event.offset,
                                   .key_length = (uint32_t)event.length};
    NABLA_TRY(keep(&file->texts, &event, &pair.key, p->diag));
    NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING,
                                "a string as value in __metadata__", &event,
                                p->diag));
    NABLA_TRY(keep(&file->texts, &event, &pair.value, p->diag));
    NABLA_TRY(nabla_buffer_append(&file->pairs, &pair, sizeof pair, p->diag));
  }
}

static int is_metadata(const nabla_json_event *key) {
  static const char name[] = NABLA_SAFETENSORS_METADATA_KEY;
  return key->length == sizeof name - 1 &&
         memcmp(key->text, name, sizeof name - 1) == 0;
}

static nabla_status parse_top(parser *p) {
  nabla_json_event event;
  int has_metadata = 0;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_OBJECT_BEGIN,
                              "the '{' of a safetensors header", &event,
                              p->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) break;
    if (!is_metadata(&event)) {
      NABLA_TRY(parse_named_tensor(p, &event));
      continue;
    }
    if (has_metadata) {
      return fail_at(p->diag, event.offset, NABLA_CORRUPT,
                     "a second __metadata__");
    }
    has_metadata = 1;
    NABLA_TRY(parse_metadata(p));
  }
  return nabla_json_expect(p->json, NABLA_JSON_END,
                           "nothing but white space behind the header", &event,
                           p->diag);
}

nabla_status nabla_safetensors_parse(nabla_safetensors *file, uint64_t length,
                                     nabla_diag *diag) {
  parser p = {file, NULL, 8, length, NABLA_SAFETENSORS_MAX_IGNORED, diag};
  nabla_json_source source = {&p, read_window};
  NABLA_TRY(nabla_json_create(file->base.allocator, source, 8, &p.json, diag));
  nabla_status status = parse_top(&p);
  nabla_json_destroy(p.json);
  return status;
}
