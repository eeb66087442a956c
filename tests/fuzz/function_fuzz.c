/* Any bytes as a saved function: read as they are, then as the body of a file
 * with a right header. What is accepted is written again, byte for byte. */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/array/function/function_file.h"
#include "lib/array/function/function_file_hash.h"
#include "lib/base/bytes.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "B";

/* An entry of the longest list, a signature, is made of at least 41 bytes. */
enum { FIXED_PEAK = 1 << 12, PEAK_PER_BYTE = 40 };

static void write_again(const nabla_function_file *file, const uint8_t *data,
                        size_t size) {
  nabla_buffer out;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer_init(&out, NULL, "a copy", SIZE_MAX / 2);
  fuzz_require(!nabla_function_file_write(file, &out, &diag),
               "what was read can be written");
  fuzz_require(out.size == size && !memcmp(out.data, data, size),
               "to the same bytes");
  nabla_buffer_deinit(&out);
}

static void read_file(const uint8_t *data, size_t size) {
  fuzz_world world;
  nabla_function_file file;
  nabla_diag diag = NABLA_DIAG_INIT;
  fuzz_world_init(&world, 0);
  const nabla_status status = nabla_function_file_read(
      &file, &world.memory.allocator, data, size, &diag);
  fuzz_check_diag(status, &diag);
  if (!status) write_again(&file, data, size);
  nabla_function_file_deinit(&file);
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const size_t header = NABLA_FUNCTION_FILE_HEADER;
  read_file(data, size);
  uint8_t *copy = calloc(1, header + size);
  if (!copy) return 0;
  memcpy(copy, NABLA_FUNCTION_FILE_MAGIC, 8);
  nabla_store_le32(copy + 8, NABLA_FUNCTION_FILE_VERSION);
  nabla_store_le64(copy + 16, size);
  if (size) memcpy(copy + header, data, size);
  nabla_function_file_hash(copy, header + size, copy + 24);
  read_file(copy, header + size);
  free(copy);
  return 0;
}
