/* Any bytes as an .npy file: read, then written and read again. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/nabla-run/npy.h"

const char fuzz_shape[] = "B";

#define PATH "/x.npy"
#define COPY "/y.npy"

/* The parts of fixed size are small: a header, paths of an output. */
enum { FIXED_PEAK = 1 << 17, PEAK_PER_BYTE = 4 };

static uint64_t bytes_of(const nabla_dense *array) {
  uint64_t bytes = nabla_dtype_bits(array->dtype) / 8;
  for (uint32_t i = 0; i < array->rank; i++) {
    fuzz_require(array->shape[i] >= 0, "sizes are not negative");
    fuzz_require(
        !__builtin_mul_overflow(bytes, (uint64_t)array->shape[i], &bytes),
        "sizes do not overflow");
  }
  return bytes;
}

static void write_again(const nabla_environment *environment,
                        const nabla_dense *array, uint64_t bytes) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_dense back = {0};
  fuzz_require(!npy_write(COPY, array, 0, environment, &diag),
               "what was read can be written");
  fuzz_require(!npy_read(COPY, environment, &back, &diag),
               "what was written can be read");
  fuzz_require(back.dtype == array->dtype && back.rank == array->rank &&
                   !memcmp(back.shape, array->shape, sizeof back.shape),
               "it has the same shape");
  fuzz_require(!bytes || !memcmp(back.data, array->data, (size_t)bytes),
               "and the same values");
  npy_release(environment, &back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_world world;
  fuzz_world_init(&world, 0);
  memory_os_put(&world.files, PATH, data, size);
  const nabla_environment environment = {.allocator = &world.memory.allocator,
                                         .os = &world.files.os};
  nabla_dense array = {.rank = 77};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status = npy_read(PATH, &environment, &array, &diag);
  fuzz_check_diag(status, &diag);
  if (status) {
    fuzz_require(array.rank == 77 && !array.data, "outputs stay as they were");
  } else {
    const uint64_t bytes = bytes_of(&array);
    fuzz_require(bytes < size, "no more values than the file has");
    fuzz_require(
        !bytes || !memcmp(array.data, data + (size - bytes), (size_t)bytes),
        "the values are the end of the file");
    write_again(&environment, &array, bytes);
    npy_release(&environment, &array);
  }
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
  return 0;
}
