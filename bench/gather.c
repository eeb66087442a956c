/* Rows of a packed table by number, as an embedding takes them, decoded to f32
 * beside a copy of as many bytes.
 *
 *   gather [ENCODING...]     256 rows of 4096 of a table of 16384 rows, with
 *                            blocks of 64 elements or those of GGUF files
 *   gather --help            says so
 *
 * One thread; best of many turns, the two sides in turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/kernels/gather_rows.h"
#include "tests/kernels/jit.h"

#define TABLE 16384u
#define WIDTH 4096u
#define ROWS  256u
#define TURNS 60

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Bytes, each of a page that is there. */
static void *fill(size_t size, int byte) {
  void *data = aligned_alloc(64, (size + 63) / 64 * 64);
  if (!data) exit(1);
  return memset(data, byte, size);
}

static nabla_fused_spec spec_of(const char *name, size_t *code_bytes) {
  nabla_fused_spec spec = {
      .w = {.kind = NABLA_STORAGE_PLANES,
            .format = {.encoding = nabla_encoding_find(name), .block = 64}},
      .storage_elements = (uint64_t)TABLE * WIDTH,
      .m_min = 1,
      .m_max = 1,
      .n = 1,
      .k = WIDTH,
      .stride_n = WIDTH,
      .stride_k = 1};
  const nabla_encoding *encoding = spec.w.format.encoding;
  uint64_t bytes = 0;
  if (encoding && encoding->is_mx)
    spec.w.format =
        (nabla_format){encoding, .block = 32, .scale = NABLA_SCALE_E8M0};
  if (!encoding) {
    const nabla_ggml *ggml = nabla_ggml_find(name);
    spec.w = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS,
                             .format = {.block = ggml ? ggml->elements : 0},
                             .ggml = ggml};
  }
  if (!encoding && !spec.w.ggml) {
    (void)fprintf(stderr, "gather: there is no encoding '%s'\n", name);
    exit(2);
  }
  if (encoding)
    bytes = spec.storage_elements * encoding->bits / 8;
  else if (nabla_ggml_size(spec.w.ggml, spec.storage_elements, &bytes, NULL))
    exit(1);
  *code_bytes = (size_t)bytes;
  return spec;
}

static void measure(jit *compiler, const jit_level *level, const char *name) {
  size_t code_bytes;
  nabla_fused_spec spec = spec_of(name, &code_bytes);
  nabla_text text = {0};
  spec.features = nabla_features_parse(level->features);
  nabla_gather_rows_emit(&spec, "kernel", &text);
  jit_code *code = jit_compile(compiler, level, text.data, "kernel");
  const size_t out_bytes = (size_t)ROWS * WIDTH * sizeof(float);
  void *arrays[] = {fill(code_bytes, 0x35), fill((size_t)TABLE * WIDTH / 8, 60),
                    fill(out_bytes, 0), fill(out_bytes, 0)};
  uint64_t starts[ROWS], words[NABLA_KERNEL_ARGS] = {0};
  words[NABLA_ARG_X] = (uint64_t)(uintptr_t)starts;
  words[NABLA_ARG_Y] = (uint64_t)(uintptr_t)arrays[2];
  words[NABLA_ARG_CODES] = (uint64_t)(uintptr_t)arrays[0];
  words[NABLA_ARG_SCALES] = (uint64_t)(uintptr_t)arrays[1];
  double best[2] = {1e18, 1e18};
  uint32_t random = 1;
  for (int turn = 0; turn < TURNS; turn++) {
    for (uint32_t i = 0; i < ROWS; i++) {
      random = random * 1664525 + 1013904223;
      starts[i] = (uint64_t)(random % TABLE) * WIDTH;
    }
    const double begin = now();
    jit_entry(code)(words, 0, ROWS);
    const double middle = now();
    memcpy(arrays[3], arrays[2], out_bytes);
    const double end = now();
    if (middle - begin < best[0]) best[0] = middle - begin;
    if (end - middle < best[1]) best[1] = end - middle;
  }
  printf("%-10s %8.2f GB/s %8.2f GB/s %8.2f\n", name,
         (double)out_bytes / best[0], (double)out_bytes / best[1],
         best[1] / best[0]);
  for (int i = 0; i < 4; i++) free(arrays[i]);
  jit_release(code);
  nabla_text_deinit(&text);
}

static int print_help(void) {
  (void)puts(
      "usage: gather [ENCODING...]\n"
      "Decodes 256 rows of 4096 elements of a packed table by number, beside\n"
      "memcpy of as many bytes. ENCODING: as nabla-quant calls it (nf4), or a\n"
      "block of GGUF files (q4_k); none: some of each.");
  return 0;
}

int main(int argc, char **argv) {
  static const char *const usual[] = {"nf4",  "fp4",   "int8",   "int4",
                                      "fp8",  "mxfp4", "iq4_nl", "q4_0",
                                      "q8_0", "q4_k",  "q6_k"};
  if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
    return print_help();
  const jit_level *levels;
  const unsigned count = jit_levels(&levels);
  jit *compiler = jit_create();
  printf("%-10s %13s %13s %8s\n", "", "rows", "memcpy", "ratio");
  for (int i = 1; i < argc; i++) measure(compiler, &levels[count - 1], argv[i]);
  for (size_t i = 0; argc == 1 && i < sizeof usual / sizeof *usual; i++)
    measure(compiler, &levels[count - 1], usual[i]);
  jit_destroy(compiler);
  return 0;
}
