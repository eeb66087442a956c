/* Looks at every scale and code of a packed tensor; see the header. */
#include "quant/tiles/verify_packed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"
#include "quant/formats/checkpoint_internal.h"

static nabla_entry entry_of(const nabla_values *values, nabla_part part) {
  return nabla_tensor_file_entry(
      nabla_checkpoint_borrow_shard(values->checkpoint, part.shard),
      part.entry);
}

/* Adds tensor, file, byte `offset` of an entry, and the next step. */
static nabla_status blame(const nabla_values *values, const nabla_entry *entry,
                          uint64_t offset, nabla_diag *diag) {
  nabla_diag_set_offset(diag, entry->offset + offset);
  nabla_diag_set_next(diag, "quantize the model again from its source");
  return nabla_values_blame(values, diag->code, diag);
}

/* ---- scales ---- */

/* What the largest code that is written multiplies its scale by, before
 * LLM.int8 divides. With zero points that depends on them. */
static float largest_factor(const nabla_format *format) {
  if (format->zero_point) return 1;
  if (nabla_encoding_is_int8(format->encoding)) return 127;
  return nabla_format_largest(format);
}

static void describe_scales(const nabla_values *values, uint64_t first,
                            int finite, uint64_t count, nabla_diag *found) {
  const nabla_entry entry = entry_of(values, values->tensor.scales);
  char more[64] = "";
  if (count > 1)
    snprintf(more, sizeof more, ", the first of %" PRIu64 " such scales",
             count);
  (void)!nabla_fail(found, NABLA_NOT_FINITE,
                    "scale %" PRIu64 " of '%.60s' is %s%s", first, entry.name,
                    finite ? "too large to decode" : "not finite", more);
  const size_t width = nabla_scale_info_of(values->tensor.format.scale)->bytes;
  (void)blame(values, &entry, first * width, found);
}

nabla_status nabla_packed_check_scales(const nabla_values *values,
                                       nabla_scratch *scratch,
                                       nabla_diag *found, nabla_diag *diag) {
  const nabla_tensor *tensor = &values->tensor;
  const uint64_t elements = entry_of(values, tensor->scales).elements;
  const float largest = largest_factor(&tensor->format);
  uint64_t bad = 0, first = 0;
  int finite = 0; /* the first bad one */
  for (uint64_t at = 0; at < elements; at += scratch->tile) {
    const uint64_t left = elements - at;
    const nabla_range range = {
        .first_scale = at,
        .scales = left < scratch->tile ? left : scratch->tile};
    NABLA_TRY(nabla_values_fetch(values, &range, scratch, diag));
    for (size_t i = 0; i < range.scales; i++) {
      const float scale = scratch->scales[i];
      if (isfinite(scale * largest)) continue;
      if (!bad++) first = at + i, finite = isfinite(scale) != 0;
    }
  }
  if (bad) describe_scales(values, first, finite, bad, found);
  return NABLA_OK;
}

/* ---- codes ---- */

/* Which bytes hold a code that an encoding has not (docs/FORMAT.md, E): one
 * that is no number, or 3 of ternary. Returns whether there are any. */
static int list_bad(const nabla_format *format, uint8_t bad[256]) {
  const nabla_encoding *encoding = format->encoding;
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  const uint32_t per_byte = 8 / encoding->bits;
  const unsigned mask = (1u << encoding->bits) - 1;
  uint8_t code_is_bad[256] = {0};
  int any = 0;
  for (unsigned code = 0; code <= mask; code++) {
    code_is_bad[code] = !isfinite(recipe->value((uint8_t)code)) ||
                        (encoding->bits == 2 && code == 3);
    any |= code_is_bad[code];
  }
  memset(bad, 0, 256);
  for (unsigned byte = 0; byte < 256 && any; byte++)
    for (uint32_t i = 0; i < per_byte; i++)
      bad[byte] |= code_is_bad[byte >> i * encoding->bits & mask];
  return any;
}

static nabla_status fail_codes(const nabla_values *values, uint64_t first,
                               uint8_t byte, uint64_t count, nabla_diag *diag) {
  const nabla_entry entry = entry_of(values, values->tensor.data);
  char more[64] = "";
  if (count > 1)
    snprintf(more, sizeof more, ", the first of %" PRIu64 " such bytes", count);
  (void)!nabla_fail(diag, NABLA_CORRUPT,
                    "byte %" PRIu64
                    " of its codes, 0x%02x, holds a code that %s has not%s",
                    first, byte, values->tensor.format.encoding->name, more);
  return blame(values, &entry, first, diag);
}

nabla_status nabla_packed_check_codes(const nabla_values *values,
                                      nabla_scratch *scratch, nabla_diag *found,
                                      nabla_diag *diag) {
  const nabla_part data = values->tensor.data;
  const nabla_tensor_file *file =
      nabla_checkpoint_borrow_shard(values->checkpoint, data.shard);
  const uint64_t bytes = entry_of(values, data).bytes;
  uint8_t bad[256], byte = 0; /* the first bad one */
  uint64_t count = 0, first = 0;
  if (!list_bad(&values->tensor.format, bad)) return NABLA_OK;
  for (uint64_t at = 0; at < bytes; at += scratch->tile) {
    const uint64_t left = bytes - at;
    const size_t size = (size_t)(left < scratch->tile ? left : scratch->tile);
    NABLA_TRY(
        nabla_tensor_file_read(file, data.entry, at, scratch->raw, size, diag));
    for (size_t i = 0; i < size; i++) {
      if (!bad[scratch->raw[i]]) continue;
      if (!count++) first = at + i, byte = scratch->raw[i];
    }
  }
  if (count) (void)!fail_codes(values, first, byte, count, found);
  return NABLA_OK;
}

/* Eight bytes of codes at once: whether one may hold a bad code. Of floats in 8
 * bits those of the largest magnitudes are no numbers; `least` is the first. */
static int is_suspect(uint32_t bits, unsigned least, uint64_t word) {
  const uint64_t ones = 0x0101010101010101;
  if (bits == 2) return (word & word >> 1 & 0x55 * ones) != 0;
  if (bits != 8) return 1;
  return (((word & 0x7f * ones) + (0x80 - least) * ones) & 0x80 * ones) != 0;
}

/* The least magnitude of a bad byte. */
static unsigned least_bad(const uint8_t bad[256]) {
  unsigned least = 0;
  while (least < 0x80 && !bad[least] && !bad[least | 0x80]) least++;
  return least;
}

nabla_status nabla_packed_check_bytes(const nabla_values *values, uint64_t at,
                                      const uint8_t *codes, size_t size,
                                      nabla_diag *diag) {
  uint8_t bad[256];
  if (!list_bad(&values->tensor.format, bad)) return NABLA_OK;
  const uint32_t bits = values->tensor.format.encoding->bits;
  const unsigned least = least_bad(bad);
  for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
    const size_t left = size - i;
    const size_t count = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
    uint64_t word = 0; /* what is missing at the end is a good code */
    memcpy(&word, codes + i, count);
    if (!is_suspect(bits, least, word)) continue;
    for (size_t k = i; k < i + count; k++)
      if (bad[codes[k]]) return fail_codes(values, at + k, codes[k], 1, diag);
  }
  return NABLA_OK;
}
