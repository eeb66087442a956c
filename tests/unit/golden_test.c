/* Stored data decodes to the same bits for ever: tests/golden/<encoding>.txt
 * and dynamic8.scales (each file says what its lines mean). */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "nabla/dynamic8.h"
#include "nabla/encoding.h"
#include "quant/codec/codec.h"
#include "tests/support/codec_calls.h"

enum { MOST = 4096, LINE = 256 };

typedef struct section {
  nabla_format format;
  size_t count, codes, scales, zeros, values; /* how many were read */
  uint8_t code[MOST], zero[MOST];
  uint32_t scale[MOST]; /* bits of the scale type */
  uint32_t value[MOST]; /* bits of f32 */
} section;

static struct criterion_test_params every_row(void) {
  static size_t rows[64];
  size_t count;
  nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, count);
}

/* Takes the numbers after the key of a line. */
static void read_numbers(section *s, const char *key, char *rest) {
  char *end;
  for (;; rest = end) {
    int hexadecimal = strcmp(key, "size") && strcmp(key, "count");
    unsigned long n = strtoul(rest, &end, hexadecimal ? 16 : 10);
    if (end == rest) break;
    cr_assert(s->codes < MOST && s->scales < MOST && s->zeros < MOST &&
              s->values < MOST);
    if (!strcmp(key, "size"))
      s->format.block = n;
    else if (!strcmp(key, "count"))
      s->count = n;
    else if (!strcmp(key, "codes"))
      s->code[s->codes++] = (uint8_t)n;
    else if (!strcmp(key, "scales"))
      s->scale[s->scales++] = (uint32_t)n;
    else if (!strcmp(key, "zero_points"))
      s->zero[s->zeros++] = (uint8_t)n;
    else if (!strcmp(key, "values"))
      s->value[s->values++] = (uint32_t)n;
    else
      cr_assert_fail("unknown key %s", key);
  }
  if (s->zeros) s->format.zero_point = 1;
}

/* Takes a line that says what kind of section it is. @return 0 for others */
static int read_kind(section *s, const char *key, const char *rest) {
  static const char *const spans[] = {"block", "row", "tensor"};
  char word[16];
  const int is_span = !strcmp(key, "per");
  if (!is_span && strcmp(key, "scale") != 0) return 0;
  cr_assert_eq(sscanf(rest, "%15s", word), 1);
  if (!is_span) {
    cr_assert(nabla_scale_type_find(word, &s->format.scale), "%s", word);
    return 1;
  }
  size_t i = 0;
  while (i < 3 && strcmp(word, spans[i]) != 0) i++;
  cr_assert_lt(i, 3, "%s", word);
  s->format.granularity = (nabla_granularity)i;
  return 1;
}

/* Any NaN stands for any. */
static int same_value(float got, uint32_t want) {
  return nabla_bits_of_f32(got) == want ||
         (isnan(got) && isnan(nabla_f32_of_bits(want)));
}

static void expect_section(section *s) {
  nabla_packed_size size;
  cr_assert_eq(nabla_format_size(&s->format, s->count, &size, NULL), NABLA_OK);
  cr_assert_eq(size.code_bytes, s->codes);
  cr_assert_eq(size.scales, s->scales);
  cr_assert_eq(s->zeros, s->format.zero_point ? s->scales : 0);
  cr_assert_eq(s->count, s->values);
  const size_t width = nabla_scale_width(&s->format);
  static uint32_t scales[MOST]; /* aligned for each type */
  for (size_t i = 0; i < s->scales; i++) {
    const uint16_t half = (uint16_t)s->scale[i];
    const uint8_t byte = (uint8_t)s->scale[i];
    memcpy((uint8_t *)scales + i * width,
           width == 4   ? (const void *)&s->scale[i]
           : width == 2 ? (const void *)&half
                        : &byte,
           width);
  }
  const nabla_packed packed = {s->code, scales, s->zero};
  static float out[MOST];
  for (int isa = NABLA_ISA_SCALAR; isa <= NABLA_ISA_AVX512; isa++) {
    if (!nabla_isa_available((nabla_isa)isa)) continue;
    nabla_codec codec;
    cr_assert_eq(select_codec(&s->format, (nabla_isa)isa, &codec, NULL),
                 NABLA_OK);
    nabla_decode(&codec, &packed, s->count, out);
    for (size_t i = 0; i < s->count; i++)
      cr_expect(same_value(out[i], s->value[i]),
                "%s %s value %zu: %08x, not %08x", s->format.encoding->name,
                nabla_isa_name((nabla_isa)isa), i, nabla_bits_of_f32(out[i]),
                s->value[i]);
  }
}

/* Scale types, without and with zero points. dynamic8 decodes as F32 does. */
typedef struct coverage {
  int seen[NABLA_SCALE_E8M0 + 1][2];
} coverage;

static void expect_everything(const nabla_encoding *e, const coverage *all) {
  for (int type = 0; type <= NABLA_SCALE_E8M0; type++)
    for (int zero = 0; zero < 2; zero++) {
      const nabla_format format = {.encoding = e,
                                   .block = NABLA_BLOCK_MX,
                                   .scale = (nabla_scale_type)type,
                                   .zero_point = zero};
      nabla_packed_size size;
      if (type == NABLA_SCALE_DYNAMIC8 ||
          nabla_format_size(&format, 0, &size, NULL))
        continue;
      cr_expect(all->seen[type][zero], "%s: no section with %s scales%s",
                e->name, nabla_scale_info_of(format.scale)->name,
                zero ? " and zero points" : "");
    }
}

static void finish(section *s, coverage *all) {
  expect_section(s);
  all->seen[s->format.scale][s->format.zero_point] = 1;
}

ParameterizedTestParameters(golden, decodes_to_the_same_bits) {
  return every_row();
}
ParameterizedTest(size_t *row, golden, decodes_to_the_same_bits) {
  size_t rows, sections = 0;
  const nabla_encoding *e = &nabla_encodings(&rows)[*row];
  char path[4096], line[LINE], key[16];
  snprintf(path, sizeof path, "%s/%s.txt", NABLA_GOLDEN_DIR, e->name);
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file, "%s is missing", path);
  section *s = calloc(1, sizeof *s);
  coverage all = {0};
  while (fgets(line, sizeof line, file)) {
    int taken = 0;
    if (line[0] == '#' || sscanf(line, "%15s%n", key, &taken) != 1) continue;
    if (!strcmp(key, "per")) {
      if (sections++) finish(s, &all);
      memset(s, 0, sizeof *s);
      s->format.encoding = e;
    }
    cr_assert_geq(sections, 1);
    if (!read_kind(s, key, line + taken)) read_numbers(s, key, line + taken);
  }
  cr_assert_geq(sections, 1, "%s has no data", path);
  finish(s, &all);
  expect_everything(e, &all);
  fclose(file);
  free(s);
}

enum { SCALES = 600 };

/* Scales in 8 bits, as the file has them. */
typedef struct nested {
  nabla_dynamic8 how;
  uint8_t codes[SCALES];
  float absmax[3], values[SCALES];
  size_t maps, absmaxes, offsets, code_count, value_count;
} nested;

static void take_nested(nested *n, const char *key, uint32_t bits) {
  const float value = nabla_f32_of_bits(bits);
  if (!strcmp(key, "map") && n->maps < NABLA_DYNAMIC8_CODES)
    n->how.map[n->maps++] = value;
  else if (!strcmp(key, "absmax") && n->absmaxes < 3)
    n->absmax[n->absmaxes++] = value;
  else if (!strcmp(key, "offset") && n->offsets++ < 1)
    n->how.offset = value;
  else if (!strcmp(key, "codes") && n->code_count < SCALES)
    n->codes[n->code_count++] = (uint8_t)bits;
  else if (!strcmp(key, "values") && n->value_count < SCALES)
    n->values[n->value_count++] = value;
  else
    cr_assert_fail("%s: unknown, or too many", key);
}

Test(golden, dynamic8_decodes_to_the_same_bits) {
  char line[LINE], key[16];
  static nested n = {.how.block = NABLA_DYNAMIC8_BLOCK};
  static float out[SCALES];
  FILE *file = fopen(NABLA_GOLDEN_DIR "/dynamic8.scales", "r");
  cr_assert_not_null(file);
  while (fgets(line, sizeof line, file)) {
    int taken = 0;
    if (line[0] == '#' || sscanf(line, "%15s%n", key, &taken) != 1) continue;
    char *rest = line + taken, *end;
    for (;; rest = end) {
      const unsigned long bits = strtoul(rest, &end, 16);
      if (end == rest) break;
      take_nested(&n, key, (uint32_t)bits);
    }
  }
  fclose(file);
  cr_assert(n.maps == NABLA_DYNAMIC8_CODES && n.absmaxes == 3 &&
            n.offsets == 1 && n.code_count == SCALES &&
            n.value_count == SCALES);
  cr_expect_arr_eq(n.how.map, nabla_dynamic8_map(), sizeof n.how.map);
  nabla_dynamic8_decode(&n.how, n.codes, n.absmax, 0, SCALES, out);
  cr_expect_arr_eq(out, n.values, sizeof out);
}
