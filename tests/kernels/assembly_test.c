/* The assembly of the kernels that are chosen by default: innermost loops have
 * no gather, call nothing, and leave the stack alone but for the scratch. A
 * loop is a label, and a jump back to it with no other label between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kernels.h"

/* A kernel to look at: rows of N x K, M in one class. */
typedef struct variant {
  const char *encoding;
  uint64_t block, n, k; /* block 0: rows */
  uint64_t m;
  int transposed;
  nabla_scale_type scale;
} variant;

static const variant variants[] = {
    {"nf4", 64, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"nf4", 64, 4096, 4096, 4, 0, NABLA_SCALE_F16},
    {"nf4", 64, 4096, 4096, 32, 0, NABLA_SCALE_F32},
    {"nf4", 64, 4096, 4096, 1, 1, NABLA_SCALE_F32},
    {"fp4", 64, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"fp4", 64, 4096, 4096, 32, 0, NABLA_SCALE_F32},
    {"int4", 64, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"int4", 64, 4096, 4096, 32, 0, NABLA_SCALE_F32},
    {"int8", 64, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"int8", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"int8", 0, 4096, 4096, 32, 0, NABLA_SCALE_F32},
    {"ternary", 64, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"fp8", 128, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"mxfp4", 32, 4096, 4096, 1, 0, NABLA_SCALE_E8M0},
    {"mxfp4", 32, 4096, 4096, 32, 0, NABLA_SCALE_E8M0},
    /* blocks of GGUF files */
    {"q4_0", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"iq4_nl", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q8_0", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q4_k", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q6_k", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
};

/* In int8 numerics. */
static const variant integer_variants[] = {
    {"q4_0", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q4_1", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q5_0", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"iq4_nl", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q8_0", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q4_k", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q5_k", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"q6_k", 0, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"ternary", 64, 4096, 4096, 1, 0, NABLA_SCALE_F32},
    {"mxfp4", 32, 4096, 4096, 1, 0, NABLA_SCALE_E8M0},
    {"q4_0", 0, 4096, 4096, 4, 0, NABLA_SCALE_F32},
    {"q8_0", 0, 4096, 4096, 4, 0, NABLA_SCALE_F32},
    {"q4_k", 0, 4096, 4096, 4, 0, NABLA_SCALE_F32},
    {"q6_k", 0, 4096, 4096, 4, 0, NABLA_SCALE_F32},
};

static nabla_fused_spec spec_of(const variant *v) {
  nabla_fused_spec spec = {.storage_elements = v->n * v->k,
                           .m_min = v->m,
                           .m_max = v->m,
                           .n = v->n,
                           .k = v->k,
                           .stride_n = v->transposed ? 1 : v->k,
                           .stride_k = v->transposed ? v->n : 1,
                           .x_type = NABLA_DTYPE_F32,
                           .y_type = NABLA_DTYPE_F32,
                           .w_type = NABLA_DTYPE_F32};
  spec.format =
      (nabla_format){.encoding = nabla_encoding_find(v->encoding),
                     .granularity = v->block ? NABLA_PER_BLOCK : NABLA_PER_ROW,
                     .block = v->block ? v->block : v->k,
                     .scale = v->scale};
  spec.ggml = spec.format.encoding ? NULL : nabla_ggml_find(v->encoding);
  if (spec.ggml) spec.format = (nabla_format){.block = spec.ggml->elements};
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

/* What is wrong with the first kernel of a variant. */
static unsigned check_variant(jit *compiler, const jit_level *level,
                              const variant *v, int integers) {
  nabla_fused_spec spec = spec_of(v), parts[NABLA_FUSED_CLASSES_MAX];
  nabla_text text = {0};
  unsigned loops = 0;
  spec.features = nabla_features_parse(level->features);
  if (integers) spec.numerics = NABLA_NUMERICS_INT8;
  (void)nabla_fused_classes(&spec, parts);
  nabla_fused_emit(&parts[0], "kernel", &text);
  char *assembly = jit_assembly(compiler, level, text.data, "kernel");
  unsigned found = check(assembly, &loops);
  if (found || !loops)
    (void)fprintf(stderr, "  of %s, M = %d%s, kernel '%s', %u loops\n",
                  v->encoding, (int)v->m, v->transposed ? ", transposed" : "",
                  nabla_fused_body(&parts[0]), loops);
  free(assembly);
  nabla_text_deinit(&text);
  return found + !loops;
}

int main(void) {
  const jit_level *levels;
  unsigned level_count = jit_levels(&levels), failures = 0, kernels_seen = 0;
  const jit_level *level = &levels[level_count - 1];
  if (!NABLA_HAS(nabla_features_parse(level->features), AVX512F)) {
    printf("skipped: the default kernels are for AVX-512\n");
    return 77;
  }
  jit *compiler = jit_create();
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    failures += check_variant(compiler, level, &variants[i], 0);
    kernels_seen++;
  }
  for (size_t i = 0; i < sizeof integer_variants / sizeof *integer_variants;
       i++) {
    failures += check_variant(compiler, level, &integer_variants[i], 1);
    kernels_seen++;
  }
  jit_destroy(compiler);
  printf("%u kernels: %u failures\n", kernels_seen, failures);
  return failures != 0;
}
