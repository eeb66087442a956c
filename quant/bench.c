/* Measures kernels against memcpy: nabla/bench.h. */
#include "nabla/bench.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"

enum {
  DEFAULT_REPETITIONS = 9,
  MAX_REPETITIONS = 1001,
  PATTERN = 1 << 20, /* values made; the rest of the buffer repeats them */
};

#define DEFAULT_BYTES (UINT64_C(256) << 20)

typedef struct bench {
  const nabla_allocator *allocator;
  nabla_bench_report report;
  void *context;
  uint32_t repetitions;
  size_t count; /* values */
  float *in, *out, *scales;
  uint8_t *codes;
  double *kernel_times, *copy_times; /* seconds, one per repetition */
  size_t scale_count;
} bench;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* splitmix64 (Steele, Lea, Flood, 2014), as a number in (0, 1). */
static double uniform(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return ((double)((z ^ z >> 31) >> 12) + 0.5) * 0x1p-52;
}

static void fill_normal(float *out, size_t count) {
  uint64_t state = 1;
  for (size_t i = 0; i < count; i++) {
    if (i >= PATTERN) {
      out[i] = out[i - PATTERN];
      continue;
    }
    double radius = sqrt(-2.0 * log(uniform(&state)));
    out[i] = (float)(radius * cos(6.283185307179586 * uniform(&state)));
  }
}

/* Sorts; there are few. */
static double median(double *times, uint32_t count) {
  for (uint32_t i = 1; i < count; i++)
    for (uint32_t j = i; j > 0 && times[j] < times[j - 1]; j--) {
      double held = times[j];
      times[j] = times[j - 1], times[j - 1] = held;
    }
  return count % 2 ? times[count / 2]
                   : (times[count / 2 - 1] + times[count / 2]) / 2;
}

static double time_copy(const bench *b) {
  double start = now();
  memcpy(b->out, b->in, b->count * sizeof *b->in);
  return now() - start;
}

static nabla_status time_kernel(const bench *b, const nabla_codec *codec,
                                int decode, double *out, nabla_diag *diag) {
  const nabla_packed packed = {.codes = b->codes, .scales = b->scales};
  double start = now();
  if (decode)
    nabla_decode(codec, &packed, b->count, b->out);
  else
    NABLA_TRY(nabla_encode(codec, b->in, NULL, b->count, &packed, NULL, diag));
  *out = now() - start;
  return NABLA_OK;
}

static nabla_status measure(bench *b, const nabla_codec *codec, int decode,
                            nabla_diag *diag) {
  double warm_up;
  NABLA_TRY(time_kernel(b, codec, decode, &warm_up, diag));
  for (uint32_t i = 0; i < b->repetitions; i++) {
    b->copy_times[i] = time_copy(b);
    NABLA_TRY(time_kernel(b, codec, decode, &b->kernel_times[i], diag));
  }
  double gigabytes = 1e-9 * (double)b->count * sizeof *b->in;
  double copy = median(b->copy_times, b->repetitions);
  double kernel = median(b->kernel_times, b->repetitions);
  nabla_bench_result result = {
      .encoding = codec->format.encoding,
      .granularity = codec->format.granularity,
      .operation = decode ? "decode" : "encode",
      .isa = codec->isa,
      .block = codec->format.block,
      .gb_per_s = gigabytes / kernel,
      .memcpy_gb_per_s = gigabytes / copy,
      .ratio = copy / kernel,
      .spread =
          (b->kernel_times[b->repetitions - 1] - b->kernel_times[0]) / kernel};
  b->report(b->context, &result);
  return NABLA_OK;
}

static nabla_status measure_format(bench *b, nabla_isa isa,
                                   const nabla_format *format,
                                   nabla_diag *diag) {
  nabla_codec codec;
  const nabla_codec_options how = {.isa = isa};
  NABLA_TRY(nabla_codec_select(format, &how, &codec, diag));
  NABLA_TRY(measure(b, &codec, 0, diag));
  return measure(b, &codec, 1, diag);
}

static nabla_status measure_all(bench *b, const nabla_bench_options *options,
                                uint64_t block, nabla_diag *diag) {
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) {
    const nabla_encoding *e = &rows[i];
    if (options->encoding && options->encoding != e) continue;
    nabla_format blocks = {.encoding = e, .block = block};
    nabla_format by_row = {
        .encoding = e, .granularity = NABLA_PER_ROW, .block = NABLA_BENCH_ROW};
    if (e->is_mx)
      blocks.block = NABLA_BLOCK_MX, blocks.scale = NABLA_SCALE_E8M0;
    NABLA_TRY(measure_format(b, options->isa, &blocks, diag));
    if (e->has_rows) NABLA_TRY(measure_format(b, options->isa, &by_row, diag));
  }
  return NABLA_OK;
}

static nabla_status allocate(bench *b, nabla_diag *diag) {
  const nabla_allocator *a = b->allocator;
  uint32_t times = b->repetitions;
  void *block;
  NABLA_TRY(nabla_alloc(a, b->count, sizeof *b->in, &block, diag));
  b->in = block;
  NABLA_TRY(nabla_alloc(a, b->count, sizeof *b->out, &block, diag));
  b->out = block;
  NABLA_TRY(nabla_alloc(a, b->scale_count, sizeof *b->scales, &block, diag));
  b->scales = block;
  NABLA_TRY(nabla_alloc(a, b->count, 1, &block, diag));
  b->codes = block;
  NABLA_TRY(nabla_alloc(a, times, sizeof *b->kernel_times, &block, diag));
  b->kernel_times = block;
  NABLA_TRY(nabla_alloc(a, times, sizeof *b->copy_times, &block, diag));
  b->copy_times = block;
  return NABLA_OK;
}

static void release(bench *b) {
  const nabla_allocator *a = b->allocator;
  nabla_free(a, b->in, b->count, sizeof *b->in);
  nabla_free(a, b->out, b->count, sizeof *b->out);
  nabla_free(a, b->scales, b->scale_count, sizeof *b->scales);
  nabla_free(a, b->codes, b->count, 1);
  nabla_free(a, b->kernel_times, b->repetitions, sizeof *b->kernel_times);
  nabla_free(a, b->copy_times, b->repetitions, sizeof *b->copy_times);
}

nabla_status nabla_bench_codecs(const nabla_bench_options *options,
                                const nabla_allocator *allocator,
                                nabla_bench_report report, void *context,
                                nabla_diag *diag) {
  uint64_t bytes = options->bytes ? options->bytes : DEFAULT_BYTES;
  uint64_t rows = bytes / (NABLA_BENCH_ROW * sizeof(float));
  bench b = {.allocator = allocator, .report = report, .context = context};
  b.repetitions =
      options->repetitions ? options->repetitions : DEFAULT_REPETITIONS;
  if (b.repetitions > MAX_REPETITIONS)
    return nabla_fail(diag, NABLA_TOO_LARGE, "more than %d repetitions",
                      MAX_REPETITIONS);
  size_t whole_rows;
  if (!nabla_cast_size(rows ? rows : 1, &whole_rows) ||
      !nabla_mul_size(whole_rows, NABLA_BENCH_ROW, &b.count))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the buffer is too large");
  b.scale_count = b.count / NABLA_BLOCK_MIN;

  nabla_status status = allocate(&b, diag);
  if (!status) {
    fill_normal(b.in, b.count);
    memset(b.out, 0, b.count * sizeof *b.out); /* touch every page */
    memset(b.codes, 0, b.count);
    memset(b.scales, 0, b.scale_count * sizeof *b.scales);
    uint64_t block = options->block ? options->block : 64;
    status = measure_all(&b, options, block, diag);
  }
  release(&b);
  return status;
}
