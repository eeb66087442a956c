/* See codec_cases.h. */
#include "tests/fuzz/codec_cases.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "tests/support/codec_calls.h"

int codec_case_read(const uint8_t *data, size_t size, codec_case *out) {
  if (size < FUZZ_OPTIONS) return 0;
  size_t encodings;
  const nabla_encoding *rows = nabla_encodings(&encodings);
  const nabla_encoding *encoding = &rows[data[0] % encodings];
  size_t count = nabla_load_le16(data + 2);
  count %= count < 0xe000 ? 600 : CODEC_MAX_COUNT + 1;
  int per_row = encoding->has_rows && (data[1] & 0x80);
  unsigned power = data[1] % 9; /* 16 to 4096 */
  *out = (codec_case){
      .format = {encoding, per_row ? NABLA_PER_ROW : NABLA_PER_BLOCK,
                 per_row ? (data[1] & 0x7fu) + 1 : 16u << power},
      .count = count,
      .rest = {data + FUZZ_OPTIONS, size - FUZZ_OPTIONS}};
  if (per_row) out->count -= count % out->format.block;
  nabla_packed_size bytes;
  nabla_diag diag = NABLA_DIAG_INIT;
  fuzz_require(!nabla_format_size(&out->format, out->count, &bytes, &diag),
               "small sizes are right");
  out->code_bytes = (size_t)bytes.code_bytes;
  out->scales = (size_t)bytes.scales;
  return 1;
}

nabla_codec codec_case_select(const codec_case *at, nabla_isa isa) {
  nabla_codec codec = {0};
  fuzz_require(!select_codec(&at->format, isa, &codec, NULL),
               "an available instruction set can be selected");
  return codec;
}

void *codec_case_buffer(size_t size) {
  void *block = malloc(size > 0 ? size : 1);
  fuzz_require(block != NULL, "memory for a buffer");
  memset(block, 0xa5, size);
  return block;
}

void codec_case_fill(fuzz_span from, size_t begin, void *out, size_t size) {
  uint8_t *to = out;
  if (from.size == 0) memset(to, 0, size);
  while (from.size > 0 && size > 0) {
    size_t at = begin % from.size, piece = from.size - at;
    if (piece > size) piece = size;
    memcpy(to, from.data + at, piece);
    to += piece;
    begin = 0;
    size -= piece;
  }
}
