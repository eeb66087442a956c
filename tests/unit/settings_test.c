/* What may be asked of an encoding, what a rule takes from the options, and
 * the format that a tensor gets. */
#include <criterion/criterion.h>
#include <string.h>

#include "quant/plan/plan.h"

#define COUNT(a)    (sizeof(a) / sizeof *(a))
#define SCALE(type) .has_scale = 1, .scale = NABLA_SCALE_##type

static nabla_diag diag;

static void set_up(void) { diag = (nabla_diag)NABLA_DIAG_INIT; }

TestSuite(settings, .init = set_up);

static nabla_status check(const char *encoding, nabla_settings settings) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_settings_check(&settings,
                              encoding ? nabla_encoding_find(encoding) : NULL,
                              "here", &diag);
}

Test(settings, what_is_refused_says_why) {
  static const struct {
    const char *encoding;
    nabla_settings settings;
    const char *what;
  } rows[] = {
      {NULL, {.block = 3}, "here: 3 is no block size"},
      {"nf4", {.block = 8}, "here: 8 is no block size"},
      {"nf4", {.block = 8192}, "8192 is no block size"},
      {"nf4", {.block = 96}, "96 is no block size"},
      {"nf4", {.block = UINT64_MAX}, "18446744073709551615 is no block size"},
      {NULL, {.has_scale = 1, .scale = (nabla_scale_type)77}, "type 77"},
      {"nf4", {.block = NABLA_BLOCK_ROW}, "one scale per row"},
      {"int8", {.block = NABLA_BLOCK_TENSOR}, "one scale per tensor"},
      {"nf4", {.zero_point = 1}, "nf4 has no zero points"},
      {"fp8", {.zero_point = 1}, "fp8 has no zero points"},
      {"nf4", {SCALE(E8M0)}, "no scales of type e8m0"},
      {"mxfp4", {SCALE(F32)}, "by itself"},
      {"mxfp8", {SCALE(DYNAMIC8)}, "by itself"},
      {"mxfp4", {.block = 64}, "blocks of 32 by itself"},
      {"mxfp4", {.block = NABLA_BLOCK_ROW}, "blocks of 32 by itself"},
      {"int8", {.block = NABLA_BLOCK_ROW, .search = 1}, "by blocks only"},
      {"fp8", {.block = NABLA_BLOCK_TENSOR, .search = 1}, "by blocks only"},
      {"int8", {.block = NABLA_BLOCK_ROW, .zero_point = 1}, "blocks only"},
      {"fp8", {.block = NABLA_BLOCK_TENSOR, .leading = 1}, "blocks only"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    cr_expect_eq(check(rows[i].encoding, rows[i].settings),
                 NABLA_INVALID_ARGUMENT, "row %zu", i);
    cr_expect_not_null(strstr(diag.what, rows[i].what), "%s", diag.what);
  }
}

Test(settings, what_is_allowed) {
  static const struct {
    const char *encoding;
    nabla_settings settings;
  } rows[] = {
      {NULL, {.block = NABLA_BLOCK_ROW, .search = 1}},
      {"nf4", {.block = 16, SCALE(DYNAMIC8), .search = 1, .leading = 1}},
      {"fp4", {.block = 4096, SCALE(BF16)}},
      {"int4", {.block = 32, SCALE(F16), .zero_point = 1, .search = 1}},
      {"int8", {.block = NABLA_BLOCK_ROW, SCALE(DYNAMIC8)}},
      {"fp8", {.block = NABLA_BLOCK_TENSOR, SCALE(F16)}},
      {"fp8_e5m2", {.block = NABLA_BLOCK_ROW}},
      {"mxfp8", {.block = 32, SCALE(E8M0), .search = 1}},
      {"mxfp4", {.leading = 1}},
      {"ternary", {.search = 1}},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_eq(check(rows[i].encoding, rows[i].settings), NABLA_OK,
                 "row %zu: %s", i, diag.what);
}

static nabla_settings of_rule(nabla_settings all, const char *encoding,
                              nabla_settings own) {
  const nabla_plan plan = {.settings = all};
  const nabla_quantize_rule rule = {"x", nabla_encoding_find(encoding), own};
  return nabla_settings_of_rule(&plan, &rule);
}

/* A rule takes what it leaves open from the options, where its encoding can
 * have it: what comes out is always allowed. */
Test(settings, rules_take_what_their_encoding_can_have) {
  nabla_settings s = of_rule(
      (nabla_settings){.block = 128, SCALE(F16), .search = 1, .leading = 1},
      "nf4", (nabla_settings){.block = 32});
  cr_expect(s.block == 32 && s.has_scale && s.scale == NABLA_SCALE_F16 &&
            s.search && s.leading);
  s = of_rule((nabla_settings){.block = 128, SCALE(F16), .zero_point = 1},
              "mxfp8", (nabla_settings){0});
  cr_expect(s.block == 0 && !s.has_scale && !s.zero_point);
  s = of_rule((nabla_settings){.zero_point = 1, .search = 1}, "int8",
              (nabla_settings){.block = NABLA_BLOCK_ROW});
  cr_expect(s.block == NABLA_BLOCK_ROW && !s.zero_point && !s.search);
  s = of_rule((nabla_settings){.block = NABLA_BLOCK_ROW}, "nf4",
              (nabla_settings){0});
  cr_expect(s.block == 0);
  s = of_rule((nabla_settings){SCALE(E8M0)}, "int4", (nabla_settings){0});
  cr_expect(!s.has_scale);
}

Test(settings, rules_are_allowed_whatever_the_options) {
  static const uint64_t blocks[] = {0, 16, 64, NABLA_BLOCK_ROW,
                                    NABLA_BLOCK_TENSOR};
  size_t encodings;
  const nabla_encoding *rows = nabla_encodings(&encodings);
  for (size_t a = 0; a < encodings; a++)
    for (size_t b = 0; b < encodings; b++)
      for (unsigned way = 0; way < COUNT(blocks) * 5 * 8; way++) {
        const nabla_settings all = {.block = blocks[way % COUNT(blocks)],
                                    .has_scale = way / 5 % 5 > 0,
                                    .scale = (nabla_scale_type)(way / 5 % 5),
                                    .zero_point = way / 25 & 1,
                                    .leading = way / 50 & 1,
                                    .search = way / 100 & 1};
        if (check(rows[a].name, all)) continue;
        const nabla_settings s =
            of_rule(all, rows[b].name, (nabla_settings){0});
        cr_assert_eq(check(rows[b].name, s), NABLA_OK, "%s: %s", rows[b].name,
                     diag.what);
      }
}

static nabla_format format_of(const char *encoding, nabla_settings settings,
                              uint32_t rank, const uint64_t *shape,
                              nabla_layout_choice choice) {
  const nabla_plan plan = {.choice = choice};
  nabla_tensor tensor = {.rank = rank, .shape = shape, .elements = 1};
  for (uint32_t i = 0; i < rank; i++) tensor.elements *= shape[i];
  return nabla_settings_format(&plan, &tensor, nabla_encoding_find(encoding),
                               &settings);
}

static const struct {
  const char *encoding;
  nabla_settings settings;
  uint32_t rank;
  nabla_layout_choice choice;
  nabla_granularity granularity;
  uint64_t block, segment;
  nabla_scale_type scale;
} formats[] = {
    {"nf4", {0}, 3, 0, NABLA_PER_BLOCK, 64, 0, NABLA_SCALE_F32},
    {"nf4", {.block = 16}, 3, 0, NABLA_PER_BLOCK, 16, 0, NABLA_SCALE_F32},
    /* without a block int8 is LLM.int8, unless something else is asked for */
    {"int8", {0}, 3, 0, NABLA_PER_ROW, 40, 0, NABLA_SCALE_F32},
    {"int8", {SCALE(F32)}, 2, 0, NABLA_PER_ROW, 5, 0, NABLA_SCALE_F32},
    {"int8", {0}, 1, 0, NABLA_PER_BLOCK, 64, 0, NABLA_SCALE_F32},
    {"int8", {SCALE(F16)}, 2, 0, NABLA_PER_BLOCK, 64, 0, NABLA_SCALE_F16},
    {"int8", {.search = 1}, 2, 0, NABLA_PER_BLOCK, 64, 0, NABLA_SCALE_F32},
    {"int8",
     {0},
     2,
     NABLA_CHOOSE_NABLA,
     NABLA_PER_BLOCK,
     64,
     0,
     NABLA_SCALE_F32},
    {"fp8",
     {.block = NABLA_BLOCK_TENSOR},
     3,
     0,
     NABLA_PER_TENSOR,
     240,
     0,
     NABLA_SCALE_F32},
    {"mxfp4", {0}, 3, 0, NABLA_PER_BLOCK, 32, 0, NABLA_SCALE_E8M0},
    /* blocks begin anew where an index is no whole number of them */
    {"nf4", {.leading = 1}, 3, 0, NABLA_PER_BLOCK, 64, 40, NABLA_SCALE_F32},
    {"mxfp4", {.leading = 1}, 3, 0, NABLA_PER_BLOCK, 32, 40, NABLA_SCALE_E8M0},
    {"nf4", {.leading = 1}, 2, 0, NABLA_PER_BLOCK, 64, 0, NABLA_SCALE_F32},
};

Test(settings, formats_follow) {
  static const uint64_t shape[] = {6, 5, 8}; /* indices of 40 values */
  for (size_t i = 0; i < COUNT(formats); i++) {
    const nabla_format f = format_of(formats[i].encoding, formats[i].settings,
                                     formats[i].rank, shape, formats[i].choice);
    cr_expect(f.granularity == formats[i].granularity &&
                  f.block == formats[i].block &&
                  f.segment == formats[i].segment &&
                  f.scale == formats[i].scale,
              "row %zu: block %lu, segment %lu", i, (unsigned long)f.block,
              (unsigned long)f.segment);
  }
  static const uint64_t whole[] = {3, 4, 16};
  cr_expect_eq(
      format_of("nf4", (nabla_settings){.leading = 1}, 3, whole, 0).segment, 0u,
      "whole blocks begin anew by themselves");
}
