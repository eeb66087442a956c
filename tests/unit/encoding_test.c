/* The table of encodings, sizes, and instruction sets. */
#include "nabla/encoding.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/isa.h"
#include "tests/support/codec_calls.h"

/* Each case runs in a process of its own: the parameter is a row number. */
static struct criterion_test_params every_row(void) {
  static size_t rows[64];
  size_t count;
  nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, count);
}

static const nabla_encoding *row_at(size_t row) {
  size_t count;
  return &nabla_encodings(&count)[row];
}

static nabla_format blocks_of(const nabla_encoding *e, uint64_t block) {
  if (e->is_mx)
    return (nabla_format){.encoding = e,
                          .granularity = NABLA_PER_BLOCK,
                          .block = block,
                          .scale = NABLA_SCALE_E8M0};
  return (nabla_format){
      .encoding = e, .granularity = NABLA_PER_BLOCK, .block = block};
}

ParameterizedTestParameters(encoding, is_found_by_name) { return every_row(); }
ParameterizedTest(size_t *row, encoding, is_found_by_name) {
  const nabla_encoding *e = row_at(*row);
  cr_expect_eq(nabla_encoding_find(e->name), e);
  cr_expect(strlen(e->summary) > 0);
  cr_expect(8 % e->bits == 0);
  cr_expect(e->rmse_bound > 0 && e->rmse_bound < 1);
}

Test(encoding, unknown_name_is_not_found) {
  cr_expect_null(nabla_encoding_find("nf5"));
  cr_expect_null(nabla_encoding_find(""));
  cr_expect_null(nabla_encoding_find("nf44"));
}

/* Files hold these: they may never change. */
Test(encoding, names_and_numbers_are_pinned) {
  cr_expect_eq(nabla_encoding_find("nf4")->wire, 1);
  cr_expect_eq(nabla_encoding_find("fp4")->wire, 2);
  cr_expect_eq(nabla_encoding_find("int8")->wire, 3);
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < i; j++) {
      cr_expect_neq(rows[i].wire, rows[j].wire);
      cr_expect_str_neq(rows[i].name, rows[j].name);
    }
}

ParameterizedTestParameters(encoding, size_counts_short_blocks) {
  return every_row();
}
ParameterizedTest(size_t *row, encoding, size_counts_short_blocks) {
  const nabla_encoding *e = row_at(*row);
  const uint64_t block = e->is_mx ? NABLA_BLOCK_MX : 64;
  nabla_format format = blocks_of(e, block);
  nabla_packed_size size;
  for (uint64_t n = 0; n < 200; n++) {
    cr_assert_eq(nabla_format_size(&format, n, &size, NULL), NABLA_OK);
    cr_expect_eq(size.code_bytes, (n * e->bits + 7) / 8);
    cr_expect_eq(size.scales, (n + block - 1) / block);
  }
}

ParameterizedTestParameters(encoding, size_of_hostile_count_is_refused) {
  return every_row();
}
ParameterizedTest(size_t *row, encoding, size_of_hostile_count_is_refused) {
  const nabla_encoding *e = row_at(*row);
  const uint64_t hostile[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 15,
                              UINT64_MAX / 2 + 1, UINT64_MAX / 2};
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    nabla_format format =
        blocks_of(e, e->is_mx ? NABLA_BLOCK_MX : NABLA_BLOCK_MIN);
    nabla_packed_size size = {42, 43, 44};
    nabla_diag diag = NABLA_DIAG_INIT;
    uint64_t bytes =
        hostile[i] / 8 * e->bits + (hostile[i] % 8 * e->bits + 7) / 8;
    nabla_status got = nabla_format_size(&format, hostile[i], &size, &diag);
    const uint64_t scales = hostile[i] / format.block + 1;
    if (bytes <= INT64_MAX && scales <= INT64_MAX / sizeof(float)) {
      cr_expect_eq(got, NABLA_OK);
      cr_expect_eq(size.code_bytes, bytes);
    } else {
      cr_expect_eq(got, NABLA_TOO_LARGE);
      cr_expect_eq(size.code_bytes, 42);
      cr_expect_eq(size.scales, 43);
      cr_expect(strlen(diag.what) > 0);
    }
  }
}

Test(encoding, size_of_one_value_rows_is_checked) {
  nabla_format format = {.encoding = nabla_encoding_find("int8"),
                         .granularity = NABLA_PER_ROW,
                         .block = 1};
  nabla_packed_size size;
  uint64_t most = INT64_MAX / sizeof(float);
  cr_expect_eq(nabla_format_size(&format, most, &size, NULL), NABLA_OK);
  cr_expect_eq(size.scales, most);
  cr_expect_eq(nabla_format_size(&format, most + 1, &size, NULL),
               NABLA_TOO_LARGE);
}

ParameterizedTestParameters(encoding, bad_blocks_are_refused) {
  return every_row();
}
ParameterizedTest(size_t *row, encoding, bad_blocks_are_refused) {
  const nabla_encoding *e = row_at(*row);
  const uint64_t bad[] = {0,  1,    8,    15,         17,        48,
                          63, 4095, 8192, UINT64_MAX, 1ULL << 63};
  nabla_packed_size size = {42, 43, 44};
  nabla_codec codec;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    nabla_format format = blocks_of(e, bad[i]);
    cr_expect_eq(nabla_format_size(&format, 64, &size, NULL),
                 NABLA_INVALID_ARGUMENT);
    cr_expect_eq(select_codec(&format, NABLA_ISA_BEST, &codec, NULL),
                 NABLA_INVALID_ARGUMENT);
  }
  cr_expect_eq(size.code_bytes, 42);
  for (uint64_t block = NABLA_BLOCK_MIN; block <= NABLA_BLOCK_MAX; block *= 2) {
    nabla_format format = blocks_of(e, block);
    const int legal = !e->is_mx || block == NABLA_BLOCK_MX;
    cr_expect_eq(nabla_format_size(&format, 64, &size, NULL),
                 legal ? NABLA_OK : NABLA_INVALID_ARGUMENT);
  }
}

ParameterizedTestParameters(encoding, rows_only_where_the_table_says) {
  return every_row();
}
ParameterizedTest(size_t *row, encoding, rows_only_where_the_table_says) {
  const nabla_encoding *e = row_at(*row);
  nabla_format format = {
      .encoding = e, .granularity = NABLA_PER_ROW, .block = 100};
  nabla_packed_size size;
  nabla_codec codec;
  nabla_status expected = e->has_rows ? NABLA_OK : NABLA_INVALID_ARGUMENT;
  cr_expect_eq(nabla_format_size(&format, 100, &size, NULL), expected);
  cr_expect_eq(select_codec(&format, NABLA_ISA_SCALAR, &codec, NULL), expected);
  format.block = 0;
  cr_expect_eq(nabla_format_size(&format, 100, &size, NULL),
               NABLA_INVALID_ARGUMENT);
}

Test(encoding, broken_formats_are_refused) {
  nabla_packed_size size;
  nabla_codec codec;
  nabla_format none = {
      .encoding = NULL, .granularity = NABLA_PER_BLOCK, .block = 64};
  cr_expect_eq(nabla_format_size(&none, 1, &size, NULL),
               NABLA_INVALID_ARGUMENT);
  nabla_format odd = blocks_of(row_at(0), 64);
  odd.granularity = (nabla_granularity)7;
  cr_expect_eq(nabla_format_size(&odd, 1, &size, NULL), NABLA_INVALID_ARGUMENT);
  nabla_encoding strange = *row_at(0);
  strange.name = "strange";
  nabla_format unknown = blocks_of(&strange, 64);
  cr_expect_eq(select_codec(&unknown, NABLA_ISA_BEST, &codec, NULL),
               NABLA_INVALID_ARGUMENT);
}

Test(encoding, instruction_sets_are_read_by_name) {
  nabla_isa isa = NABLA_ISA_BEST;
  nabla_diag diag = NABLA_DIAG_INIT;
  for (int i = 0; i < NABLA_ISA_COUNT; i++) {
    cr_expect_eq(nabla_isa_read(nabla_isa_name((nabla_isa)i), &isa, &diag),
                 NABLA_OK);
    cr_expect_eq(isa, (nabla_isa)i);
  }
  isa = NABLA_ISA_AVX2;
  cr_expect_eq(nabla_isa_read("sse", &isa, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(isa, NABLA_ISA_AVX2, "untouched on failure");
  cr_expect(strstr(diag.what, "'sse'"), "%s", diag.what);
  cr_expect_str_eq(diag.next, "legal are best, scalar, avx2, avx512, no-amx");
}

/* Each test is a process of its own, which reads the variable once. */
Test(encoding, the_environment_names_the_best) {
  nabla_isa isa = NABLA_ISA_SCALAR;
  setenv("NABLA_ISA", "no-amx", 1);
  cr_expect_eq(nabla_isa_or_environment(NABLA_ISA_BEST, &isa, NULL), NABLA_OK);
  cr_expect_eq(isa, NABLA_ISA_NO_AMX);
  setenv("NABLA_ISA", "avx2", 1);
  cr_expect_eq(nabla_isa_or_environment(NABLA_ISA_BEST, &isa, NULL), NABLA_OK);
  cr_expect_eq(isa, NABLA_ISA_NO_AMX, "it is read once");
  cr_expect_eq(nabla_isa_or_environment(NABLA_ISA_AVX512, &isa, NULL),
               NABLA_OK);
  cr_expect_eq(isa, NABLA_ISA_AVX512, "what is asked for stays");
}

Test(encoding, an_empty_variable_is_none) {
  nabla_isa isa = NABLA_ISA_SCALAR;
  setenv("NABLA_ISA", "", 1);
  cr_expect_eq(nabla_isa_or_environment(NABLA_ISA_BEST, &isa, NULL), NABLA_OK);
  cr_expect_eq(isa, NABLA_ISA_BEST);
}

Test(encoding, a_wrong_variable_is_refused_by_its_name) {
  nabla_isa isa = NABLA_ISA_SCALAR;
  nabla_diag diag = NABLA_DIAG_INIT;
  setenv("NABLA_ISA", "amx-only", 1);
  cr_expect_eq(nabla_isa_or_environment(NABLA_ISA_BEST, &isa, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(isa, NABLA_ISA_SCALAR, "untouched on failure");
  cr_expect(strstr(diag.what, "NABLA_ISA") && strstr(diag.what, "'amx-only'"),
            "%s", diag.what);
  cr_expect_str_eq(diag.next, "legal are best, scalar, avx2, avx512, no-amx");
}

Test(encoding, instruction_sets_are_named_and_checked) {
  cr_expect_str_eq(nabla_isa_name(NABLA_ISA_BEST), "best");
  cr_expect_str_eq(nabla_isa_name(NABLA_ISA_SCALAR), "scalar");
  cr_expect_str_eq(nabla_isa_name(NABLA_ISA_AVX2), "avx2");
  cr_expect_str_eq(nabla_isa_name(NABLA_ISA_AVX512), "avx512");
  cr_expect_str_eq(nabla_isa_name(NABLA_ISA_NO_AMX), "no-amx");
  cr_expect_str_eq(nabla_isa_name((nabla_isa)99), "unknown");
  cr_expect(nabla_isa_available(NABLA_ISA_NO_AMX));
  cr_expect_eq(nabla_isa_resolve(NABLA_ISA_NO_AMX),
               nabla_isa_resolve(NABLA_ISA_BEST));
  cr_expect_not(nabla_isa_available((nabla_isa)NABLA_ISA_COUNT));
  cr_expect(nabla_isa_available(NABLA_ISA_BEST));
  cr_expect(nabla_isa_available(NABLA_ISA_SCALAR));
  cr_expect_not(nabla_isa_available((nabla_isa)99));
  nabla_isa best = nabla_isa_resolve(NABLA_ISA_BEST);
  cr_expect(nabla_isa_available(best) && best != NABLA_ISA_BEST);
  for (int isa = (int)best + 1; isa <= NABLA_ISA_AVX512; isa++)
    cr_expect_not(nabla_isa_available((nabla_isa)isa));
  for (int isa = NABLA_ISA_SCALAR; isa <= NABLA_ISA_AVX512; isa++)
    cr_expect_eq(nabla_isa_resolve((nabla_isa)isa), (nabla_isa)isa);

  nabla_format format = blocks_of(row_at(0), 64);
  nabla_codec codec = {.isa = (nabla_isa)42};
  cr_expect_eq(select_codec(&format, (nabla_isa)99, &codec, NULL),
               NABLA_UNSUPPORTED);
  cr_expect_eq(codec.isa, (nabla_isa)42, "untouched on failure");
  cr_assert_eq(select_codec(&format, NABLA_ISA_BEST, &codec, NULL), NABLA_OK);
  cr_expect(nabla_isa_available(codec.isa) && codec.isa != NABLA_ISA_BEST);
  for (int isa = NABLA_ISA_SCALAR; isa <= NABLA_ISA_AVX512; isa++)
    cr_expect(!nabla_isa_available((nabla_isa)isa) || (int)codec.isa >= isa);
}

/* The files of LLM.int8 do not say which encoding they hold. */
Test(encoding, of_8_bits_bitsandbytes_has_int8_alone) {
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++)
    cr_expect(!rows[i].in_bitsandbytes || rows[i].bits == 4 ||
                  !strcmp(rows[i].name, "int8"),
              "%s", rows[i].name);
}
