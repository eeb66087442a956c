/* Encodes and decodes raw values for codec_oracle.py. It reads requests, a line
 * followed by bytes, and answers each alike:
 *
 *   encode|decode ENCODING block|row|tensor SIZE SCALE ZERO_POINT SEGMENT ISA
 *   DTYPE COUNT BYTES
 *   STATUS INDEX BYTES
 *
 * To encode, the request has COUNT values of DTYPE, and the answer scales, zero
 * points and codes; to decode, the request has these. The answer ends with the
 * decoded values as F32, F16 and BF16. INDEX is that of a bad value.
 *
 *   dynamic8 BYTES
 *
 * has scales in f32; the answer is offset, map, codes, absmax and the decoded
 * scales. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/dynamic8.h"
#include "nabla/encoding.h"
#include "quant/codec/codec.h"

typedef struct request {
  int encodes;
  nabla_format format;
  nabla_codec_options options;
  size_t count, bytes;
} request;

typedef struct answer {
  size_t index, bytes;
  uint8_t *data;
} answer;

/* Components in one piece of memory: scales, then zero points, then codes. */
typedef struct buffers {
  uint8_t *packed;
  size_t scales, zero_points, packed_bytes;
} buffers;

static int parse_format(const char *encoding, const char *span,
                        const char *scale, request *r) {
  static const char *const spans[] = {"block", "row", "tensor"};
  r->format.encoding = nabla_encoding_find(encoding);
  for (int i = 0; i < 3; i++)
    if (!strcmp(span, spans[i])) r->format.granularity = (nabla_granularity)i;
  return r->format.encoding && nabla_scale_type_find(scale, &r->format.scale);
}

static int parse(const char *line, request *r) {
  char verb[8], encoding[32], span[8], scale[16], isa[16], dtype[8];
  if (sscanf(
          line, "%7s %31s %7s %" SCNu64 " %15s %d %" SCNu64 " %15s %7s %zu %zu",
          verb, encoding, span, &r->format.block, scale, &r->format.zero_point,
          &r->format.segment, isa, dtype, &r->count, &r->bytes) != 11)
    return 0;
  r->options.struct_size = sizeof r->options;
  r->encodes = !strcmp(verb, "encode");
  for (int i = NABLA_ISA_SCALAR; i <= NABLA_ISA_AVX512; i++)
    if (!strcmp(isa, nabla_isa_name((nabla_isa)i)))
      r->options.isa = (nabla_isa)i;
  return parse_format(encoding, span, scale, r) &&
         !nabla_dtype_find(dtype, strlen(dtype), &r->options.dtype, NULL);
}

static nabla_packed parts_of(const request *r, const buffers *b) {
  return (nabla_packed){
      .codes = b->packed + b->scales + b->zero_points,
      .scales = b->packed,
      .zero_points = r->format.zero_point ? b->packed + b->scales : NULL};
}

/* Appends the values, decoded to each dtype, to the answer. */
static nabla_status add_decoded(const request *r, const buffers *b, answer *a) {
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                       NABLA_DTYPE_BF16};
  const nabla_packed parts = parts_of(r, b);
  for (int i = 0; i < 3; i++) {
    const nabla_codec_options options = {.struct_size = sizeof options,
                                         .isa = r->options.isa,
                                         .dtype = dtypes[i]};
    const size_t bytes = r->count * nabla_dtype_bits(dtypes[i]) / 8;
    nabla_codec codec;
    nabla_status status =
        nabla_codec_select(&r->format, &options, &codec, NULL);
    if (status) return status;
    float *values = malloc(bytes + 1); /* aligned, and as large as need be */
    if (!values) return NABLA_NO_MEMORY;
    nabla_decode(&codec, &parts, r->count, values);
    memcpy(a->data + a->bytes, values, bytes);
    a->bytes += bytes;
    free(values);
  }
  return NABLA_OK;
}

/* @param in r->bytes bytes
 * @param b  with room for the components */
static nabla_status fill(const request *r, const nabla_codec *codec,
                         const void *in, const buffers *b, answer *a) {
  const nabla_packed parts = parts_of(r, b);
  if (r->encodes) {
    nabla_status status =
        nabla_encode(codec, in, NULL, r->count, &parts, &a->index, NULL);
    if (status) return status;
    memcpy(a->data, b->packed, b->packed_bytes);
    a->bytes = b->packed_bytes;
  } else {
    memcpy(b->packed, in, b->packed_bytes);
  }
  return add_decoded(r, b, a);
}

static nabla_status run(const request *r, const void *in, answer *a) {
  nabla_codec codec;
  nabla_packed_size size;
  nabla_status status =
      nabla_codec_select(&r->format, &r->options, &codec, NULL);
  if (!status) status = nabla_format_size(&r->format, r->count, &size, NULL);
  if (status) return status;
  buffers b = {.scales = (size_t)size.scales * nabla_scale_width(&r->format),
               .zero_points = r->format.zero_point ? (size_t)size.scales : 0};
  b.packed_bytes = b.scales + b.zero_points + (size_t)size.code_bytes;
  const size_t wanted = r->encodes
                            ? r->count * nabla_dtype_bits(codec.dtype) / 8
                            : b.packed_bytes;
  if (r->bytes != wanted) return NABLA_CORRUPT;
  b.packed = malloc(b.packed_bytes + 1);
  a->data = malloc(b.packed_bytes + r->count * 8 + 1);
  status = b.packed && a->data ? fill(r, &codec, in, &b, a) : NABLA_NO_MEMORY;
  free(b.packed);
  return status;
}

static void put(answer *a, const void *bytes, size_t size) {
  memcpy(a->data + a->bytes, bytes, size);
  a->bytes += size;
}

static nabla_status run_dynamic8(const float *in, size_t count, answer *a) {
  const size_t groups =
      (count + NABLA_DYNAMIC8_BLOCK - 1) / NABLA_DYNAMIC8_BLOCK;
  nabla_dynamic8 how = {.block = NABLA_DYNAMIC8_BLOCK};
  memcpy(how.map, nabla_dynamic8_map(), sizeof how.map);
  how.offset = nabla_dynamic8_offset(nabla_dynamic8_add(0, in, count), count);
  uint8_t *codes = malloc(count + 1);
  float *absmax = malloc(groups * sizeof *absmax + 1);
  float *back = malloc(count * sizeof *back + 1);
  a->data = malloc(sizeof how + count * 5 + groups * sizeof *absmax);
  nabla_status status = NABLA_NO_MEMORY;
  if (codes && absmax && back && a->data) {
    status = nabla_dynamic8_encode(in, count, how.offset, codes, absmax)
                 ? NABLA_OK
                 : NABLA_NOT_FINITE;
    nabla_dynamic8_decode(&how, codes, absmax, 0, count, back);
    put(a, &how.offset, sizeof how.offset);
    put(a, how.map, sizeof how.map);
    put(a, codes, count);
    put(a, absmax, groups * sizeof *absmax);
    put(a, back, count * sizeof *back);
  }
  free(codes);
  free(absmax);
  free(back);
  return status;
}

int main(void) {
  char line[256];
  while (fgets(line, sizeof line, stdin)) {
    request r = {0};
    answer a = {0};
    const int nested = sscanf(line, "dynamic8 %zu", &r.bytes) == 1;
    if (!nested && !parse(line, &r)) return 2;
    void *in = malloc(r.bytes + 1);
    if (!in || fread(in, 1, r.bytes, stdin) != r.bytes) return 3;
    const nabla_status status =
        nested ? run_dynamic8(in, r.bytes / sizeof(float), &a)
               : run(&r, in, &a);
    if (status) a.bytes = 0;
    printf("%s %zu %zu\n", nabla_status_name(status), a.index, a.bytes);
    fwrite(a.data ? a.data : in, 1, a.bytes, stdout);
    fflush(stdout);
    free(a.data);
    free(in);
  }
  return 0;
}
