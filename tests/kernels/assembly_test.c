/* The assembly of the kernels that are chosen by default: innermost loops have
 * no gather, call nothing, and leave the stack alone but for the scratch. A
 * loop is a label, and a jump back to it with no other label between. For
 * AArch64, with its vectors and with portable code alone: kernels multiply
 * vectors and call nothing. */
#include <llvm-c/Target.h>
#include <llvm/Config/Targets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec/ggml.h"
#include "tests/kernels/kernels.h"

/* A kernel to look at: rows of N x K, M in one class. What is left out is 0. */
typedef struct variant {
  const char *encoding;
  uint64_t block; /* 0: rows, or blocks of a GGUF file */
  uint64_t m;
  int transposed;
  nabla_scale_type scale; /* 0: F32 */
  nabla_weight_layout layout;
  nabla_numerics numerics;
  const char *variant; /* NULL: the one that is chosen */
} variant;

#define N 4096u
#define K 4096u

#define PREPACKED NABLA_WEIGHT_LAYOUT_PREPACKED
#define BF16      NABLA_NUMERICS_BF16
#define INT8      NABLA_NUMERICS_INT8

static const variant variants[] = {
    {.encoding = "nf4", .block = 64, .m = 1},
    {.encoding = "nf4", .block = 64, .m = 4, .scale = NABLA_SCALE_F16},
    {.encoding = "nf4", .block = 64, .m = 8},
    {.encoding = "nf4", .block = 64, .m = 31, .scale = NABLA_SCALE_F16},
    {.encoding = "nf4", .block = 64, .m = 32},
    {.encoding = "nf4", .block = 64, .m = 1, .transposed = 1},
    {.encoding = "nf4", .block = 64, .m = 8, .transposed = 1},
    {.encoding = "fp4", .block = 64, .m = 1},
    {.encoding = "fp4", .block = 64, .m = 32},
    {.encoding = "int4", .block = 64, .m = 1},
    {.encoding = "int4", .block = 64, .m = 32},
    {.encoding = "int8", .block = 64, .m = 1},
    {.encoding = "int8", .m = 1},
    {.encoding = "int8", .block = 64, .m = 8},
    {.encoding = "int8", .m = 32},
    {.encoding = "ternary", .block = 64, .m = 1},
    {.encoding = "fp8", .block = 128, .m = 1},
    {.encoding = "mxfp4", .block = 32, .m = 1, .scale = NABLA_SCALE_E8M0},
    {.encoding = "mxfp4", .block = 32, .m = 32, .scale = NABLA_SCALE_E8M0},
    {.encoding = "nf4", .block = 64, .m = 1, .layout = PREPACKED},
    {.encoding = "nf4", .block = 64, .m = 4, .layout = PREPACKED},
    {.encoding = "int8", .block = 64, .m = 512, .layout = PREPACKED},
    /* blocks of GGUF files */
    {.encoding = "q4_0", .m = 1},
    {.encoding = "q4_0", .m = 8},
    {.encoding = "q4_k", .m = 8},
    {.encoding = "q6_k", .m = 8},
    {.encoding = "q8_0", .m = 3},
    {.encoding = "iq4_nl", .m = 1},
    {.encoding = "q8_0", .m = 1},
    {.encoding = "q4_k", .m = 1},
    {.encoding = "q6_k", .m = 1},
};
#define VARIANTS (sizeof variants / sizeof *variants)

/* For x86: in other numerics, where the CPU has the instructions. */
static const variant other_variants[] = {
    {.encoding = "nf4", .block = 64, .m = 32, .variant = "gemm_f32_bf16x3_amx"},
    {.encoding = "q6_k", .m = 32, .variant = "gemm_f32_bf16x3_amx"},
    {.encoding = "mxfp4",
     .block = 32,
     .m = 32,
     .scale = NABLA_SCALE_E8M0,
     .variant = "gemm_f32_bf16x3_amx"},
    {.encoding = "nf4",
     .block = 64,
     .m = 32,
     .numerics = BF16,
     .variant = "gemm_bf16_amx"},
    {.encoding = "int8",
     .block = 64,
     .m = 32,
     .numerics = BF16,
     .variant = "gemm_bf16_amx"},
    {.encoding = "nf4",
     .block = 64,
     .m = 32,
     .numerics = BF16,
     .variant = "gemm_bf16_avx512"},
    {.encoding = "nf4",
     .block = 64,
     .m = 32,
     .numerics = INT8,
     .variant = "gemm_int8_amx"},
    {.encoding = "int8",
     .block = 64,
     .m = 32,
     .numerics = INT8,
     .variant = "gemm_int8_amx"},
    {.encoding = "ternary", .block = 64, .m = 1, .numerics = INT8},
    {.encoding = "mxfp4",
     .block = 32,
     .m = 1,
     .scale = NABLA_SCALE_E8M0,
     .numerics = INT8},
    {.encoding = "q4_0", .m = 1, .numerics = INT8},
    {.encoding = "q4_1", .m = 1, .numerics = INT8},
    {.encoding = "q5_0", .m = 1, .numerics = INT8},
    {.encoding = "iq4_nl", .m = 1, .numerics = INT8},
    {.encoding = "q8_0", .m = 1, .numerics = INT8},
    {.encoding = "q4_k", .m = 1, .numerics = INT8},
    {.encoding = "q5_k", .m = 1, .numerics = INT8},
    {.encoding = "q6_k", .m = 1, .numerics = INT8},
    {.encoding = "q4_0", .m = 4, .numerics = INT8},
    {.encoding = "q8_0", .m = 4, .numerics = INT8},
    {.encoding = "q4_k", .m = 4, .numerics = INT8},
    {.encoding = "q6_k", .m = 4, .numerics = INT8},
};
#define OTHER_VARIANTS (sizeof other_variants / sizeof *other_variants)

/* Values come from a table of 16. */
static int has_table(const nabla_fused_spec *spec) {
  return spec->w.ggml ? spec->w.ggml->layout->table != NULL
                      : spec->w.format.encoding->bits <= 4;
}

static nabla_fused_spec spec_of(const variant *v) {
  nabla_fused_spec spec = {.storage_elements = (uint64_t)N * K,
                           .m_min = v->m,
                           .m_max = v->m,
                           .n = N,
                           .k = K,
                           .layout = v->layout,
                           .numerics = v->numerics,
                           .variant = v->variant,
                           .stride_n = v->transposed ? 1 : K,
                           .stride_k = v->transposed ? N : 1,
                           .x_type = NABLA_DTYPE_F32,
                           .y_type = NABLA_DTYPE_F32,
                           .w_type = NABLA_DTYPE_F32};
  spec.w.kind = NABLA_STORAGE_PLANES;
  spec.w.format =
      (nabla_format){.encoding = nabla_encoding_find(v->encoding),
                     .granularity = v->block ? NABLA_PER_BLOCK : NABLA_PER_ROW,
                     .block = v->block ? v->block : K,
                     .scale = v->scale};
  if (!spec.w.format.encoding) {
    const nabla_ggml *ggml = nabla_ggml_find(v->encoding);
    if (!ggml) abort();
    spec.w = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS,
                             .format = {.block = ggml->elements},
                             .ggml = ggml};
  }
  return spec;
}

/* The next line: its start and, in `length`, its size; NULL at the end. */
static const char *next_line(const char **at, size_t *length) {
  const char *line = *at;
  if (!*line) return NULL;
  const char *end = strchr(line, '\n');
  *length = end ? (size_t)(end - line) : strlen(line);
  *at = end ? end + 1 : line + *length;
  return line;
}

static int holds(const char *line, size_t length, const char *what) {
  return memmem(line, length, what, strlen(what)) != NULL;
}

/* Whether an instruction of `assembly` reads a place of the stack that another
 * one writes, by the same offset: a spill. The scratch is filled by loops, by
 * other registers. */
static int is_spill(const char *assembly, const char *line, size_t length) {
  char stored[64];
  const char *end = memmem(line, length, "(%rsp)", 6);
  if (!end || !holds(line, length, "mm")) return 0;
  const char *begin = end;
  while (begin > line &&
         (begin[-1] == '-' || (begin[-1] >= '0' && begin[-1] <= '9')))
    begin--;
  (void)snprintf(stored, sizeof stored, ", %.*s(%%rsp)\n", (int)(end - begin),
                 begin);
  return strstr(assembly, stored) != NULL;
}

/* Why an instruction has no place in an innermost loop, or NULL. */
static const char *objection(const char *assembly, const char *line,
                             size_t length) {
  if (holds(line, length, "gather")) return "a gather";
  if (holds(line, length, "\tcall")) return "a call";
  if (is_spill(assembly, line, length)) return "a spill of a vector";
  return NULL;
}

/* Looks at the innermost loop from `label` on; the number of its instructions,
 * or 0 when what begins there is none. */
static unsigned look(const char *assembly, const char *from, const char *label,
                     size_t size, unsigned *failures) {
  unsigned count = 0, wrong = 0;
  const char *line, *bad = NULL, *why = NULL;
  size_t length, bad_length = 0;
  while ((line = next_line(&from, &length))) {
    if (*line == '.' && line[1] == 'L') return 0; /* another label */
    if (*line != '\t' || line[1] == '.') continue;
    count++;
    if (!bad && (why = objection(assembly, line, length))) {
      bad = line;
      bad_length = length;
      wrong = 1;
    }
    if (line[1] == 'j' && length > size &&
        !memcmp(line + length - size, label, size)) {
      if (wrong) {
        *failures += 1;
        (void)fprintf(stderr, "%s in a loop: %.*s\n", why, (int)bad_length,
                      bad);
      }
      return count;
    }
  }
  return 0;
}

static unsigned check(const char *assembly, unsigned *out_loops) {
  unsigned failures = 0;
  const char *at = assembly, *line;
  size_t length;
  while ((line = next_line(&at, &length))) {
    const char *colon = memchr(line, ':', length);
    if (line[0] != '.' || line[1] != 'L' || !colon) continue;
    *out_loops +=
        look(assembly, at, line, (size_t)(colon - line), &failures) != 0;
  }
  return failures;
}

/* The kernel of a variant, as assembly; its variant's name and chosen spec. */
static char *assembly_of(jit *compiler, const jit_level *level,
                         const variant *v, nabla_fused_spec *out) {
  nabla_fused_spec spec = spec_of(v), parts[NABLA_FUSED_CLASSES_MAX];
  nabla_text text = {0};
  spec.features = nabla_features_parse(level->features);
  (void)nabla_fused_classes(&spec, parts);
  nabla_fused_emit(&parts[0], "kernel", &text);
  char *assembly = jit_assembly(compiler, level, text.data, "kernel");
  nabla_text_deinit(&text);
  *out = parts[0];
  return assembly;
}

static void show(const variant *v, const nabla_fused_spec *spec,
                 const jit_level *level, const char *what) {
  (void)fprintf(stderr, "%s: %s, M = %d%s, kernel '%s', for %s\n", what,
                v->encoding, (int)v->m, v->transposed ? ", transposed" : "",
                nabla_fused_variant(spec), level->name);
}

static unsigned check_variant(jit *compiler, const jit_level *level,
                              const variant *v) {
  nabla_fused_spec spec = spec_of(v);
  unsigned loops = 0;
  spec.features = nabla_features_parse(level->features);
  const char *why = v->variant ? nabla_fused_objection(&spec) : NULL;
  if (why) {
    printf("skipped: %s: %s\n", v->variant, why);
    return 0;
  }
  char *assembly = assembly_of(compiler, level, v, &spec);
  unsigned found = check(assembly, &loops);
  if (found || !loops) show(v, &spec, level, loops ? "see above" : "no loops");
  free(assembly);
  return found + !loops;
}

static unsigned check_x86(jit *compiler, const jit_level *level) {
  unsigned failures = 0;
  for (size_t i = 0; i < VARIANTS; i++)
    failures += check_variant(compiler, level, &variants[i]);
  for (size_t i = 0; i < OTHER_VARIANTS; i++)
    failures += check_variant(compiler, level, &other_variants[i]);
  return failures;
}

#if LLVM_HAS_AARCH64_TARGET

/* Calls of what is not in the text, but for what objects may have. */
static unsigned calls_outside(const char *assembly) {
  unsigned count = 0;
  const char *line;
  size_t length;
  while ((line = next_line(&assembly, &length)))
    if (holds(line, length, "\tbl\t") && !holds(line, length, "\tkernel") &&
        !holds(line, length, "\tmem"))
      count++;
  return count;
}

static unsigned check_aarch64(jit *compiler) {
  static const jit_level levels[] = {
      {"AArch64", "generic", "neon", "aarch64-linux-gnu"},
      {"AArch64, portable", "generic", "", "aarch64-linux-gnu"}};
  unsigned failures = 0;
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  for (size_t i = 0; i < 2 * VARIANTS; i++) {
    const jit_level *level = &levels[i % 2];
    const variant *v = &variants[i / 2];
    nabla_fused_spec spec;
    char *assembly = assembly_of(compiler, level, v, &spec);
    const char *what = NULL;
    if (calls_outside(assembly)) what = "calls something";
    if (!strstr(assembly, "fmla\tv")) what = "no vectors are multiplied";
    if (i % 2 == 0 && has_table(&spec) && !strstr(assembly, "tbl\tv"))
      what = "no lookup by bytes";
    if (what) show(v, &spec, level, what);
    failures += what != NULL;
    free(assembly);
  }
  return failures;
}

#else

static unsigned check_aarch64(jit *compiler) {
  (void)compiler;
  printf("SKIP: this LLVM has no AArch64\n");
  return 0;
}

#endif

int main(void) {
  const jit_level *levels;
  unsigned level_count = jit_levels(&levels);
  const jit_level *level = &levels[level_count - 1];
  jit *compiler = jit_create();
  unsigned failures = check_aarch64(compiler);
  if (NABLA_HAS(nabla_features_parse(level->features), AVX512F))
    failures += check_x86(compiler, level);
  else
    printf("SKIP: the default kernels of x86 are for AVX-512\n");
  jit_destroy(compiler);
  printf("%u kernels for each machine: %u failures\n", (unsigned)VARIANTS,
         failures);
  return failures != 0;
}
