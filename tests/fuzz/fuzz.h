/* What fuzz targets share: the promises they check, and how an input is cut
 * into parts. A broken promise aborts, which is how libFuzzer learns of it. */
#ifndef NABLA_TESTS_FUZZ_H
#define NABLA_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/memory_os.h"

/* The entry of a target, by the name that libFuzzer gives it. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Says what an input consists of, for the mutator: FUZZ_OPTIONS option bytes
 * if the first letter is 'b', then one part per further letter, separated by
 * FUZZ_CUT: 'S' a safetensors file, 'J' JSON, 'B' any bytes. */
extern const char fuzz_shape[];
#define FUZZ_OPTIONS  4
#define FUZZ_CUT      "\xff\xfe\xfd\xfc"
#define FUZZ_CUT_SIZE 4

typedef struct fuzz_span {
  const uint8_t *data;
  size_t size;
} fuzz_span;

/* Finds part `index` of an input without option bytes; empty if there is none.
 * The last part may hold further FUZZ_CUTs. */
fuzz_span fuzz_part(fuzz_span input, size_t index, size_t parts);

/* Aborts, saying `what` was promised, unless it holds. */
void fuzz_require(int holds, const char *what);

/* Checks that a diag says what `status` says, ends its texts, and holds no
 * control bytes. */
void fuzz_check_diag(nabla_status status, const nabla_diag *diag);

/* 1 when `product` is the product of the shape and no step overflowed. */
int fuzz_is_product(const uint64_t *shape, uint32_t rank, uint64_t product);

/* Memory and files of one run. */
typedef struct fuzz_world {
  failing_allocator memory;
  memory_os files;
} fuzz_world;

/* Starts with no files; allocation `fail_at` fails (0: none). */
void fuzz_world_init(fuzz_world *world, size_t fail_at);

/* Checks that nothing leaked and that never more than `peak` bytes were held.
 * Everything must have been closed. */
void fuzz_world_end(fuzz_world *world, size_t peak);

#endif
