/* Sets of CPU features, and the growable text that kernels are written to. */
#include "lib/kernels/builder/features.h"

#include <stdio.h>
#include <string.h>

#include "lib/kernels/builder/families.h"
#include "lib/kernels/builder/text.h"

static unsigned failures;

static void expect(const char *list, const char *wanted) {
  char got[160];
  nabla_features_format(nabla_features_parse(list), got, sizeof got);
  if (!strcmp(got, wanted)) return;
  (void)fprintf(stderr, "'%s' is '%s', not '%s'\n", list, got, wanted);
  failures++;
}

static void check_features(void) {
  expect("", "");
  expect(",,+,-", "");
  expect("sse4.2,+unknown", "");
  expect("+avx", "avx");
  expect("avx2,fma", "avx,avx2,fma");
  expect("+avx512f", "avx,avx2,fma,f16c,avx512f");
  expect("+avx512vbmi,-avx2", "avx,fma,f16c");
  expect("+avx512bf16,-avx", "");
  expect("-avx2,+avx2", "avx,avx2");
  expect("avx512f,avx512vl,-avx512f", "avx,avx2,fma,f16c");
  expect("+neon,+fp-armv8", "neon");
  expect("neon,-neon", "");
  expect("avx2,+zen,-avx2", "avx,zen");
  char all[160], small[8];
  nabla_features_format(~(nabla_features)0 >> (32 - NABLA_FEATURE_COUNT), all,
                        sizeof all);
  expect(all, all);
  nabla_features_format(nabla_features_parse(all), small, sizeof small);
  if (strlen(small) >= sizeof small) failures++;
}

static void expect_family(const char *list, const char *wanted) {
  const char *got = nabla_cpu_family_of(nabla_features_parse(list))->name;
  if (!strcmp(got, wanted)) return;
  (void)fprintf(stderr, "'%s' is of '%s', not of '%s'\n", list, got, wanted);
  failures++;
}

/* By features, or by LLVM's name of the CPU. */
static void check_families(void) {
  expect_family("", "avx2");
  expect_family("avx2,fma", "avx2");
  expect_family("avx512f", "avx512");
  expect_family("avx512fp16", "sapphire_rapids");
  expect_family("avx512f,zen", "zen");
  expect_family("avx2,zen", "zen");
  failures += !NABLA_HAS(nabla_features_of_cpu("znver4"), ZEN) ||
              nabla_features_of_cpu("sapphirerapids") ||
              nabla_features_of_cpu("x86-64-v4");
}

static void check_text(void) {
  nabla_text text = {0};
  for (int i = 0; i < 100000; i++) nabla_text_add(&text, "%d,", i % 10);
  failures += text.failed || text.size != 200000 || text.data[199998] != '9' ||
              text.data[200000];
  nabla_text_add_float(&text, 0.1);
  failures += strcmp(text.data + 200000, "1.00000000000000006e-01") != 0;
  nabla_text_add(&text, "%*s", 20 << 20, "");
  failures += !text.failed || text.size > NABLA_TEXT_LIMIT;
  size_t size = text.size;
  nabla_text_add(&text, "more");
  failures += text.size != size;
  nabla_text_deinit(&text);
  failures += text.data != NULL || text.failed;
}

int main(void) {
  check_features();
  check_families();
  check_text();
  printf("features and text: %u failures\n", failures);
  return failures != 0;
}
