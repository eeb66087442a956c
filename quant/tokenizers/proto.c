/* Reading fields of protocol buffers; see proto.h. */
#include "quant/tokenizers/proto.h"

#define MAX_NUMBER ((1u << 29) - 1) /* of a field, as the format has it */

nabla_proto nabla_proto_inner(const nabla_proto *outer,
                              const nabla_proto_field *field) {
  const size_t within = (size_t)(field->contents.data - outer->cursor.data);
  return (nabla_proto){field->contents, outer->origin + within};
}

static int take_varint(nabla_cursor *cursor, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t *byte;
    if (!nabla_cursor_take(cursor, 1, &byte)) return 0;
    if (shift == 63 && *byte > 1) return 0;
    value |= (uint64_t)(*byte & 0x7f) << shift;
    if (!(*byte & 0x80)) {
      *out = value;
      return 1;
    }
  }
  return 0;
}

static nabla_status corrupt(size_t offset, const char *what, nabla_diag *diag) {
  const nabla_status status = nabla_fail(diag, NABLA_CORRUPT, "%s", what);
  nabla_diag_set_offset(diag, offset);
  return status;
}

/* Takes the value of a field whose key has been read. */
static int take_value(nabla_cursor *cursor, nabla_proto_field *field) {
  uint64_t size;
  uint32_t word;
  const uint8_t *bytes;
  switch (field->wire) {
    case NABLA_PROTO_VARINT:
      return take_varint(cursor, &field->value);
    case NABLA_PROTO_FIXED64:
      return nabla_cursor_take_u64(cursor, &field->value);
    case NABLA_PROTO_FIXED32:
      if (!nabla_cursor_take_u32(cursor, &word)) return 0;
      field->value = word;
      return 1;
    case NABLA_PROTO_BYTES:
      if (!take_varint(cursor, &size) || size > nabla_cursor_left(cursor) ||
          !nabla_cursor_take(cursor, (size_t)size, &bytes))
        return 0;
      field->contents = (nabla_cursor){bytes, (size_t)size, 0};
      return 1;
  }
  return 0;
}

nabla_status nabla_proto_next(nabla_proto *message, nabla_proto_field *out,
                              int *out_is_end, nabla_diag *diag) {
  nabla_cursor *cursor = &message->cursor;
  const size_t offset = message->origin + cursor->at;
  uint64_t key;
  *out_is_end = !nabla_cursor_left(cursor);
  if (*out_is_end) return NABLA_OK;
  if (!take_varint(cursor, &key) || key >> 3 == 0 || key >> 3 > MAX_NUMBER)
    return corrupt(offset, "a field has no number", diag);
  const unsigned wire = (unsigned)(key & 7);
  *out = (nabla_proto_field){.number = (uint32_t)(key >> 3),
                             .wire = (nabla_proto_wire)wire,
                             .offset = offset};
  if (wire > NABLA_PROTO_BYTES && wire != NABLA_PROTO_FIXED32)
    return corrupt(offset, "a field has no type that is used today", diag);
  if (!take_value(cursor, out))
    return corrupt(offset, "the message ends within a field", diag);
  return NABLA_OK;
}

nabla_status nabla_proto_expect(const nabla_proto_field *field,
                                nabla_proto_wire wire, const char *name,
                                nabla_diag *diag) {
  if (field->wire == wire) return NABLA_OK;
  const nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "the field %s (%u) has wire type %d, not %d", name,
      field->number, (int)field->wire, (int)wire);
  nabla_diag_set_offset(diag, field->offset);
  return status;
}
