/* Up to eight lines as regular expressions, a name to match: time and memory
 * stay bounded, which libFuzzer's own limits check. */
#include <stdlib.h>
#include <string.h>

#include "nabla/quantize.h"
#include "quant/plan/patterns.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "BB";

enum { MAX_LINES = 8, FIXED_PEAK = 1 << 20 };

/* Cuts `text` at newlines. @return how many lines */
static size_t split(char *text, const char *lines[MAX_LINES]) {
  size_t count = 0;
  char *rest = text;
  while (count < MAX_LINES && rest) lines[count++] = strsep(&rest, "\n");
  return count;
}

static char *copy_text(fuzz_span span) {
  char *copy = malloc(span.size + 1);
  fuzz_require(copy != NULL, "memory for a text");
  if (span.size > 0) memcpy(copy, span.data, span.size);
  copy[span.size] = 0;
  return copy;
}

static void match(const nabla_patterns *patterns, const char *const *lines,
                  size_t count, const char *name) {
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t found = 99;
  fuzz_require(nabla_patterns_count(patterns) == count, "all were compiled");
  for (size_t i = 0; i < count; i++)
    fuzz_require(!strcmp(nabla_patterns_text(patterns, i), lines[i]),
                 "texts are kept");
  fuzz_require(!nabla_patterns_match(patterns, name, &found, &diag),
               "matching succeeds");
  fuzz_require(found == SIZE_MAX || found < count, "a pattern was found");
  for (size_t i = 0; i < count; i++)
    if (!strcmp(lines[i], "."))
      fuzz_require(!*name || found <= i, "a dot matches any name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_world world;
  fuzz_world_init(&world, 0);
  char *text = copy_text(fuzz_part((fuzz_span){data, size}, 0, 2));
  fuzz_span tail = fuzz_part((fuzz_span){data, size}, 1, 2);
  if (tail.size > NABLA_TENSOR_FILE_MAX_NAME)
    tail.size = NABLA_TENSOR_FILE_MAX_NAME;
  char *name = copy_text(tail);
  const char *lines[MAX_LINES];
  size_t count = split(text, lines);
  nabla_patterns *patterns = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = nabla_patterns_create(&world.memory.allocator, "--skip",
                                              lines, count, &patterns, &diag);
  fuzz_check_diag(status, &diag);
  fuzz_require(!status || status == NABLA_INVALID_ARGUMENT,
               "a pattern is good or bad");
  if (!status) match(patterns, lines, count, name);
  nabla_patterns_destroy(patterns);
  free(text);
  free(name);
  fuzz_world_end(&world, FIXED_PEAK);
  return 0;
}
