/* What a program outside the project does: link, call, read a result. */
#include <stdio.h>
#include <string.h>

#include "nabla/encoding.h"

int main(void) {
  const float in[4] = {0.0f, -1.0f, 0.5f, 1.0f};
  float scales[1], out[4];
  uint8_t codes[2];
  size_t where;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_format format = {.encoding = nabla_encoding_find("nf4"), .block = 64};
  nabla_packed packed = {.codes = codes, .scales = scales};
  nabla_codec codec;
  if (nabla_codec_select(&format, NULL, &codec, &diag) ||
      nabla_encode(&codec, in, NULL, 4, &packed, &where, &diag)) {
    fprintf(stderr, "%s\n", diag.what);
    return 1;
  }
  nabla_decode(&codec, &packed, 4, out);
  /* zero and the block's extremes are exact in nf4 */
  return !(out[0] == 0.0f && out[1] == -1.0f && out[3] == 1.0f);
}
