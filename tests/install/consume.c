/* What a program outside the project does: link, call, read a result. */
#include <stdio.h>
#include <string.h>

#include "tests/support/codec_calls.h"
#include "nabla/encoding.h"

int main(void) {
  const float in[4] = {0.0f, -1.0f, 0.5f, 1.0f};
  float scales[1], out[4];
  uint8_t codes[2];
  size_t where;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_format format = {nabla_encoding_find("nf4"), NABLA_PER_BLOCK, 64};
  nabla_codec codec;
  if (select_codec(&format, NABLA_ISA_BEST, &codec, &diag) ||
      encode_f32(&codec, in, 4, codes, scales, &where, &diag)) {
    fprintf(stderr, "%s\n", diag.what);
    return 1;
  }
  decode_f32(&codec, codes, scales, 4, out);
  /* zero and the block's extremes are exact in nf4 */
  return !(out[0] == 0.0f && out[1] == -1.0f && out[3] == 1.0f);
}
