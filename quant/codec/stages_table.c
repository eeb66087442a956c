/* Which code each stage of each encoding has for each instruction set. */
#include <pthread.h>
#include <string.h>

#include "quant/codec/kernel.h"

/* A stage of any signature; cast back to call it. */
typedef void (*any_stage)(void);

typedef enum stage {
  STAGE_absmax,
  STAGE_peak,
  STAGE_range,
  STAGE_mean,
  STAGE_round,
  STAGE_stream,
  STAGE_code,
  STAGE_code_ahead,
  STAGE_decode,
} stage;

typedef struct kernel_row {
  const char *encoding; /* or "any" */
  stage stage;
  nabla_isa isa;
  any_stage code;
} kernel_row;

#define ISA_scalar NABLA_ISA_SCALAR
#define ISA_avx2   NABLA_ISA_AVX2
#define ISA_avx512 NABLA_ISA_AVX512
#define KERNEL(id, stage, isa) \
  {#id, STAGE_##stage, ISA_##isa, (any_stage)nabla_##id##_##stage##_##isa},
#define ENCODING(id, ...)  \
  KERNEL(id, code, scalar) \
  KERNEL(id, decode, scalar)

/* From slowest to fastest within each stage. */
static const kernel_row rows[] = {
    KERNEL(any, absmax, scalar) KERNEL(any, peak, scalar)
        KERNEL(any, range, scalar) KERNEL(any, mean, scalar)
            KERNEL(any, round, scalar) KERNEL(any, stream, scalar)
#include "quant/codec/encodings.def"
#if NABLA_X86
#include "quant/codec/kernels.def"
#endif
};
#undef ENCODING

static const struct {
  const char *name;
  const nabla_recipe *recipe;
} encodings[] = {
#define ENCODING(id, ...) {#id, &nabla_##id##_recipe},
#include "quant/codec/encodings.def"
#undef ENCODING
};

enum {
  ENCODINGS = sizeof encodings / sizeof *encodings,
  ROWS = sizeof rows / sizeof *rows,
  ISAS = NABLA_ISA_AVX512 + 1,
};

static nabla_stages found[ENCODINGS][ISAS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void put(nabla_stages *stages, const kernel_row *row) {
  switch (row->stage) {
    case STAGE_absmax:
      stages->absmax = (nabla_kernel_absmax *)row->code;
      return;
    case STAGE_peak:
      stages->peak = (nabla_kernel_peak *)row->code;
      return;
    case STAGE_range:
      stages->range = (nabla_kernel_range *)row->code;
      return;
    case STAGE_mean:
      stages->mean = (nabla_kernel_mean *)row->code;
      return;
    case STAGE_round:
      stages->round = (nabla_kernel_round *)row->code;
      return;
    case STAGE_stream:
      stages->stream = (nabla_kernel_stream *)row->code;
      return;
    case STAGE_code_ahead:
      stages->code_ahead = (nabla_kernel_code_ahead *)row->code;
      return;
    case STAGE_code:
      stages->code = (nabla_kernel_code *)row->code;
      if (row->isa == NABLA_ISA_SCALAR) stages->code_scalar = stages->code;
      return;
    case STAGE_decode:
      stages->decode = (nabla_kernel_decode *)row->code;
      return;
  }
}

static void fill(void) {
  for (size_t e = 0; e < ENCODINGS; e++)
    for (int isa = NABLA_ISA_SCALAR; isa < ISAS; isa++)
      for (size_t i = 0; i < ROWS; i++)
        if ((int)rows[i].isa <= isa &&
            (!strcmp(rows[i].encoding, encodings[e].name) ||
             !strcmp(rows[i].encoding, "any")))
          put(&found[e][isa], &rows[i]);
}

static size_t index_of(const nabla_encoding *encoding) {
  size_t i = 0;
  while (i < ENCODINGS && strcmp(encodings[i].name, encoding->name) != 0) i++;
  return i;
}

const nabla_stages *nabla_stages_find(const nabla_encoding *encoding,
                                      nabla_isa isa) {
  const size_t i = index_of(encoding);
  pthread_once(&once, fill);
  return i < ENCODINGS ? &found[i][isa] : NULL;
}

const nabla_recipe *nabla_recipe_find(const nabla_encoding *encoding) {
  const size_t i = index_of(encoding);
  return i < ENCODINGS ? encodings[i].recipe : NULL;
}
