/* Little-endian loads and stores, and a cursor that cannot leave its span. */
#ifndef NABLA_BASE_BYTES_H
#define NABLA_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t nabla_load_le16(const void *in) {
  const uint8_t *b = in;
  return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t nabla_load_le32(const void *in) {
  const uint8_t *b = in;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
         (uint32_t)b[3] << 24;
}

static inline uint64_t nabla_load_le64(const void *in) {
  const uint8_t *b = in;
  return (uint64_t)nabla_load_le32(b) | (uint64_t)nabla_load_le32(b + 4) << 32;
}

static inline void nabla_store_le32(void *out, uint32_t value) {
  uint8_t *b = out;
  for (int i = 0; i < 4; i++) b[i] = (uint8_t)(value >> (8 * i));
}

static inline void nabla_store_le64(void *out, uint64_t value) {
  uint8_t *b = out;
  for (int i = 0; i < 8; i++) b[i] = (uint8_t)(value >> (8 * i));
}

static inline uint32_t nabla_bits_of_f32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float nabla_f32_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* A reader of bytes that somebody else owns. Each take returns 1 and advances,
 * or returns 0 and changes nothing. */
typedef struct nabla_cursor {
  const uint8_t *data;
  size_t size, at;
} nabla_cursor;

static inline size_t nabla_cursor_left(const nabla_cursor *cursor) {
  return cursor->size - cursor->at;
}

static inline int nabla_cursor_take(nabla_cursor *cursor, size_t size,
                                    const uint8_t **out) {
  if (size > nabla_cursor_left(cursor)) return 0;
  *out = cursor->data + cursor->at;
  cursor->at += size;
  return 1;
}

static inline int nabla_cursor_take_u64(nabla_cursor *cursor, uint64_t *out) {
  const uint8_t *bytes;
  if (!nabla_cursor_take(cursor, 8, &bytes)) return 0;
  *out = nabla_load_le64(bytes);
  return 1;
}

static inline int nabla_cursor_take_u32(nabla_cursor *cursor, uint32_t *out) {
  const uint8_t *bytes;
  if (!nabla_cursor_take(cursor, 4, &bytes)) return 0;
  *out = nabla_load_le32(bytes);
  return 1;
}

#endif
