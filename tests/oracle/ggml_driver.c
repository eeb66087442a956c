/* Decodes and encodes blocks of GGUF's formats for ggml_oracle.py. It reads
 * requests, a line followed by bytes, and answers each alike:
 *
 *   decode|encode FORMAT BLOCKS BYTES
 *   STATUS INDEX BYTES
 *
 * Decoding answers with the values as F32, F16 and BF16; encoding takes F32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/ggml.h"

static nabla_status decode(const nabla_ggml *format, const uint8_t *in,
                           size_t blocks, uint8_t *out, size_t *size) {
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                       NABLA_DTYPE_BF16};
  for (int i = 0; i < 3; i++) {
    nabla_status status =
        nabla_ggml_decode(format, dtypes[i], in, blocks, out + *size, NULL);
    if (status) return status;
    *size += blocks * format->elements * nabla_dtype_bits(dtypes[i]) / 8;
  }
  return NABLA_OK;
}

int main(void) {
  char line[256], verb[8], name[16];
  while (fgets(line, sizeof line, stdin)) {
    size_t blocks, bytes, size = 0, index = 0;
    if (sscanf(line, "%7s %15s %zu %zu", verb, name, &blocks, &bytes) != 4)
      return 2;
    const nabla_ggml *format = nabla_ggml_find(name);
    const int encodes = !strcmp(verb, "encode");
    if (!format) return 2;
    if (bytes != blocks * (encodes ? format->elements * 4 : format->bytes))
      return 2;
    uint8_t *in = malloc(bytes + 1);
    uint8_t *out = malloc(blocks * format->elements * 8 + 1);
    if (!in || !out || fread(in, 1, bytes, stdin) != bytes) return 3;
    nabla_status status = encodes
                              ? nabla_ggml_encode(format, NABLA_DTYPE_F32, in,
                                                  blocks, out, &index, NULL)
                              : decode(format, in, blocks, out, &size);
    if (encodes && !status) size = blocks * format->bytes;
    printf("%s %zu %zu\n", nabla_status_name(status), index, size);
    fwrite(out, 1, size, stdout);
    fflush(stdout);
    free(in);
    free(out);
  }
  return 0;
}
