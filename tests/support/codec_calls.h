/* Short forms of the codec calls for tests of f32 values. */
#ifndef NABLA_TESTS_CODEC_CALLS_H
#define NABLA_TESTS_CODEC_CALLS_H

#include "nabla/encoding.h"

static inline nabla_status select_codec(const nabla_format *format,
                                        nabla_isa isa, nabla_codec *out,
                                        nabla_diag *diag) {
  const nabla_codec_options options = {.struct_size = sizeof options,
                                       .isa = isa};
  return nabla_codec_select(format, &options, out, diag);
}

static inline nabla_status encode_f32(const nabla_codec *codec, const float *in,
                                      size_t count, uint8_t *codes,
                                      float *scales, size_t *out_index,
                                      nabla_diag *diag) {
  const nabla_packed packed = {.codes = codes, .scales = scales};
  return nabla_encode(codec, in, NULL, count, &packed, out_index, diag);
}

static inline void decode_f32(const nabla_codec *codec, const uint8_t *codes,
                              const float *scales, size_t count, float *out) {
  const nabla_packed packed = {.codes = (uint8_t *)(uintptr_t)codes,
                               .scales = (void *)(uintptr_t)scales};
  nabla_decode(codec, &packed, count, out);
}

#endif
