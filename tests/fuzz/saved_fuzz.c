/* Any bytes as the end of a saved program: what is accepted keeps its promises,
 * and judging it ends with a status. */
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/runtime/program/saved_program.h"
#include "tests/fuzz/fuzz.h"

/* Bytes in front of the tail, then the tail. */
const char fuzz_shape[] = "bB";

static void judge(const nabla_saved_record *record) {
  static const nabla_x86_features none;
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_x86_features *here = nabla_x86_features_here();
  const nabla_status with = nabla_saved_check(record, here, &diag);
  fuzz_check_diag(with, &diag);
  const nabla_status without = nabla_saved_check(record, &none, &diag);
  fuzz_check_diag(without, &diag);
  fuzz_require(with != NABLA_OK || !*record->features || without != NABLA_OK,
               "a CPU without features runs only what needs none");
  fuzz_require(without != NABLA_OK || with == NABLA_OK,
               "features never make a CPU do less");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < FUZZ_OPTIONS) return 0;
  const uint64_t front = nabla_load_le32(data);
  const uint8_t *tail = data + FUZZ_OPTIONS;
  size -= FUZZ_OPTIONS;
  if (size > NABLA_SAVED_TAIL) {
    tail += size - NABLA_SAVED_TAIL;
    size = NABLA_SAVED_TAIL;
  }
  nabla_saved_record record = {.abi = 77};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status =
      nabla_saved_parse(tail, size, front + size, &record, &diag);
  fuzz_check_diag(status, &diag);
  if (status) {
    fuzz_require(record.abi == 77, "outputs stay as they were");
    return 0;
  }
  const char *begin = (const char *)tail, *end = begin + size;
  fuzz_require(record.triple >= begin && record.features > record.triple &&
                   record.features < end,
               "texts lie in the tail");
  fuzz_require(
      memchr(record.features, 0, (size_t)(end - record.features)) != NULL,
      "and end there");
  fuzz_require(record.code_size < front + size, "code lies in the file");
  judge(&record);
  return 0;
}
