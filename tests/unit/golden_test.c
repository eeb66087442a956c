/* Stored data decodes to the same bits for ever: tests/golden/<encoding>.txt
 * (each file says what its lines mean). */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "nabla/encoding.h"
#include "tests/support/codec_calls.h"

enum { MOST = 4096, LINE = 256 };

typedef struct section {
  nabla_format format;
  size_t count, codes, scales, values; /* how many were read */
  uint8_t code[MOST];
  uint32_t scale[MOST], value[MOST]; /* bits of f32 */
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
    cr_assert(s->codes < MOST && s->scales < MOST && s->values < MOST);
    if (!strcmp(key, "size"))
      s->format.block = n;
    else if (!strcmp(key, "count"))
      s->count = n;
    else if (!strcmp(key, "codes"))
      s->code[s->codes++] = (uint8_t)n;
    else if (!strcmp(key, "scales"))
      s->scale[s->scales++] = (uint32_t)n;
    else if (!strcmp(key, "values"))
      s->value[s->values++] = (uint32_t)n;
    else
      cr_assert_fail("unknown key %s", key);
  }
}

static void expect_section(const section *s) {
  nabla_packed_size size;
  cr_assert_eq(nabla_format_size(&s->format, s->count, &size, NULL), NABLA_OK);
  cr_assert_eq(size.code_bytes, s->codes);
  cr_assert_eq(size.scales, s->scales);
  cr_assert_eq(s->count, s->values);
  float scales[MOST], out[MOST];
  memcpy(scales, s->scale, s->scales * sizeof *scales);
  for (int isa = NABLA_ISA_SCALAR; isa <= NABLA_ISA_AVX512; isa++) {
    if (!nabla_isa_available((nabla_isa)isa)) continue;
    nabla_codec codec;
    cr_assert_eq(select_codec(&s->format, (nabla_isa)isa, &codec, NULL),
                 NABLA_OK);
    decode_f32(&codec, s->code, scales, s->count, out);
    for (size_t i = 0; i < s->count; i++) {
      uint32_t bits = nabla_bits_of_f32(out[i]);
      cr_expect_eq(bits, s->value[i], "%s %s value %zu: %08x, not %08x",
                   s->format.encoding->name, nabla_isa_name((nabla_isa)isa), i,
                   bits, s->value[i]);
    }
  }
}

ParameterizedTestParameters(golden, decodes_to_the_same_bits) {
  return every_row();
}
ParameterizedTest(size_t *row, golden, decodes_to_the_same_bits) {
  size_t rows, sections = 0;
  const nabla_encoding *e = &nabla_encodings(&rows)[*row];
  char path[4096], line[LINE], key[16], word[16];
  snprintf(path, sizeof path, "%s/%s.txt", NABLA_GOLDEN_DIR, e->name);
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file, "%s is missing", path);
  section *s = calloc(1, sizeof *s);
  while (fgets(line, sizeof line, file)) {
    int taken = 0;
    if (line[0] == '#' || sscanf(line, "%15s%n", key, &taken) != 1) continue;
    if (strcmp(key, "per") != 0) {
      cr_assert_geq(sections, 1);
      read_numbers(s, key, line + taken);
      continue;
    }
    if (sections++) expect_section(s);
    memset(s, 0, sizeof *s);
    cr_assert_eq(sscanf(line + taken, "%15s", word), 1);
    s->format.encoding = e;
    s->format.granularity =
        strcmp(word, "row") ? NABLA_PER_BLOCK : NABLA_PER_ROW;
  }
  cr_assert_geq(sections, 1, "%s has no data", path);
  expect_section(s);
  fclose(file);
  free(s);
}
