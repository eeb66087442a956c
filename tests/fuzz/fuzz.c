/* See fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_LIMIT = 64 << 20 };

fuzz_span fuzz_part(fuzz_span input, size_t index, size_t parts) {
  fuzz_span left = input;
  for (size_t i = 0; i <= index; i++) {
    const uint8_t *cut =
        left.size > 0 && i + 1 < parts
            ? memmem(left.data, left.size, FUZZ_CUT, FUZZ_CUT_SIZE)
            : NULL;
    size_t size = cut ? (size_t)(cut - left.data) : left.size;
    if (i == index) return (fuzz_span){left.data, size};
    size_t skip = cut ? size + FUZZ_CUT_SIZE : size;
    left = (fuzz_span){left.data ? left.data + skip : NULL, left.size - skip};
  }
  return left;
}

void fuzz_require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "fuzz: broken promise: %s\n", what);
  abort();
}

static void check_text(const char *text, size_t room, const char *what) {
  size_t length = strnlen(text, room);
  fuzz_require(length < room, what);
  for (size_t i = 0; i < length; i++)
    fuzz_require((unsigned char)text[i] >= 0x20 && text[i] != 0x7f,
                 "a diag holds no control bytes");
}

void fuzz_check_diag(nabla_status status, const nabla_diag *diag) {
  if (!status) return;
  char line[1200];
  fuzz_require(diag->code == status, "a diag has the code that was returned");
  fuzz_require(diag->what[0] != 0, "a diag says what is wrong");
  check_text(diag->file, sizeof diag->file, "diag.file ends");
  check_text(diag->tensor, sizeof diag->tensor, "diag.tensor ends");
  check_text(diag->what, sizeof diag->what, "diag.what ends");
  check_text(diag->next, sizeof diag->next, "diag.next ends");
  int length = nabla_diag_format(diag, line, sizeof line);
  fuzz_require(length > 0 && (size_t)length < sizeof line, "a diag is a line");
}

int fuzz_is_product(const uint64_t *shape, uint32_t rank, uint64_t product) {
  uint64_t value = 1;
  for (uint32_t i = 0; i < rank; i++)
    if (__builtin_mul_overflow(value, shape[i], &value)) return 0;
  return value == product;
}

void fuzz_world_init(fuzz_world *world, size_t fail_at) {
  failing_allocator_init(&world->memory, fail_at);
  memory_os_init(&world->files, OUTPUT_LIMIT);
}

void fuzz_world_end(fuzz_world *world, size_t peak) {
  fuzz_require(world->memory.peak_bytes <= peak, "memory stays bounded");
  fuzz_require(failing_allocator_is_clean(&world->memory), "memory is freed");
  fuzz_require(memory_os_destroy(&world->files), "files are closed");
}
