/* Encodes and decodes raw f32 for codec_oracle.py. It reads requests from its
 * input, one per line, and answers each with one line, a status name:
 *
 *   ENCODING block|row SIZE ISA COUNT IN OUT
 *
 * IN holds COUNT f32; OUT gets codes, then scales, then the decoded f32. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/encoding.h"
#include "tests/support/codec_calls.h"

typedef struct request {
  nabla_format format;
  nabla_isa isa;
  size_t count;
  char in[512], out[512];
} request;

static int parse(const char *line, request *r) {
  char encoding[32], granularity[8], isa[16];
  if (sscanf(line, "%31s %7s %" SCNu64 " %15s %zu %511s %511s", encoding,
             granularity, &r->format.block, isa, &r->count, r->in, r->out) != 7)
    return 0;
  r->format.encoding = nabla_encoding_find(encoding);
  r->format.granularity =
      strcmp(granularity, "row") ? NABLA_PER_BLOCK : NABLA_PER_ROW;
  for (int i = NABLA_ISA_BEST; i <= NABLA_ISA_AVX512; i++)
    if (!strcmp(isa, nabla_isa_name((nabla_isa)i))) r->isa = (nabla_isa)i;
  return 1;
}

static int read_all(const char *path, void *out, size_t size) {
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  int ok = fread(out, 1, size, file) == size;
  fclose(file);
  return ok;
}

/* Encodes `in` and writes the answer; the three outputs are the caller's. */
static const char *answer(const request *r, const nabla_codec *codec,
                          nabla_packed_size size, const float *in,
                          uint8_t *codes, float *scales, float *back) {
  size_t index;
  nabla_status status =
      encode_f32(codec, in, r->count, codes, scales, &index, NULL);
  decode_f32(codec, codes, scales, r->count, back);
  FILE *file = fopen(r->out, "wb");
  if (!file) return "NO_OUTPUT";
  size_t written = fwrite(codes, 1, size.code_bytes, file);
  written += fwrite(scales, sizeof *scales, size.scales, file);
  written += fwrite(back, sizeof *back, r->count, file);
  if (fclose(file) || written != size.code_bytes + size.scales + r->count)
    return "NO_OUTPUT";
  return nabla_status_name(status);
}

static const char *run(const request *r) {
  nabla_codec codec;
  nabla_packed_size size;
  nabla_status status = select_codec(&r->format, r->isa, &codec, NULL);
  if (!status) status = nabla_format_size(&r->format, r->count, &size, NULL);
  if (status) return nabla_status_name(status);
  float *in = malloc(r->count * sizeof *in + 1);
  float *back = malloc(r->count * sizeof *back + 1);
  uint8_t *codes = malloc(size.code_bytes + 1);
  float *scales = malloc(size.scales * sizeof *scales + 1);
  const char *text = "NO_INPUT";
  if (in && back && codes && scales &&
      read_all(r->in, in, r->count * sizeof *in))
    text = answer(r, &codec, size, in, codes, scales, back);
  free(in);
  free(back);
  free(codes);
  free(scales);
  return text;
}

int main(void) {
  char line[2048];
  while (fgets(line, sizeof line, stdin)) {
    request r = {.isa = NABLA_ISA_BEST};
    puts(parse(line, &r) ? run(&r) : "BAD_REQUEST");
    fflush(stdout);
  }
  return 0;
}
