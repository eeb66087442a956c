/* Measures codecs, compared with memcpy: codec_measure.h. */
#include "bench/nabla-bench/codec_measure.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "nabla/dynamic8.h"
#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"

enum {
  DEFAULT_REPETITIONS = 7,
  MAX_REPETITIONS = 1001,
  PATTERN = 1 << 20, /* values that are generated; they repeat in the rest of
                      * the buffer */
  PIECE = 4 << 20,   /* bytes per call when decoding with plain stores */
  HUGE_PAGE = 2 << 20,
  BUFFERS = 6,
  STAGGER = 17 << 12, /* offset between buffers: equal addresses modulo a power
                       * of two would collide in the caches */
};

#define DEFAULT_BYTES (UINT64_C(512) << 20)

typedef struct bench {
  const nabla_allocator *allocator;
  bench_codec_report report;
  void *context;
  uint32_t repetitions;
  size_t count; /* values */
  float *in, *out;
  void *half; /* the values as F16 or BF16 */
  nabla_packed packed;
  double *kernel_times, *copy_times; /* seconds, one per repetition */
  size_t scale_count;
  void *blocks[BUFFERS]; /* memory that was allocated for the buffers */
  size_t block_sizes[BUFFERS], block_count;
} bench;

/* One measurement. */
typedef struct job {
  nabla_codec codec;
  int decode, stream; /* stream: stores past the caches */
} job;

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

/* Sorts a short array. */
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

/* Decodes in pieces small enough for stores that stay in the caches. */
static void decode_pieces(const bench *b, const nabla_codec *codec) {
  const size_t width = nabla_dtype_bits(codec->dtype) / 8;
  const size_t piece = PIECE / width;
  for (size_t at = 0; at < b->count; at += piece) {
    const size_t size = b->count - at < piece ? b->count - at : piece;
    const size_t scale = (size_t)nabla_scale_index(&codec->format, at);
    const nabla_packed part = {
        .codes = b->packed.codes + nabla_code_bytes(&codec->format, at),
        .scales = (uint8_t *)b->packed.scales +
                  scale * nabla_scale_width(&codec->format),
        .zero_points = b->packed.zero_points + scale};
    nabla_decode(codec, &part, size, (uint8_t *)b->out + at * width);
  }
}

/* Encodes the scales as dynamic8: computes the offset and the codes. */
static nabla_status encode_scales(const bench *b, const nabla_format *format,
                                  nabla_diag *diag) {
  const size_t count = (size_t)nabla_scale_index(format, b->count);
  const double sum = nabla_dynamic8_add(0, b->packed.scales, count);
  const float offset = nabla_dynamic8_offset(sum, count);
  if (nabla_dynamic8_encode(b->packed.scales, count, offset,
                            b->packed.zero_points, b->half))
    return NABLA_OK;
  return nabla_fail(diag, NABLA_NOT_FINITE, "a scale is not finite");
}

static nabla_status time_job(const bench *b, const job *j, double *out,
                             nabla_diag *diag) {
  const void *in = j->codec.dtype == NABLA_DTYPE_F32 ? b->in : b->half;
  double start = now();
  if (!j->decode)
    NABLA_TRY(
        nabla_encode(&j->codec, in, NULL, b->count, &b->packed, NULL, diag));
  else if (j->stream)
    nabla_decode(&j->codec, &b->packed, b->count, b->out);
  else
    decode_pieces(b, &j->codec);
  if (j->codec.format.scale == NABLA_SCALE_DYNAMIC8)
    NABLA_TRY(encode_scales(b, &j->codec.format, diag));
  *out = now() - start;
  return NABLA_OK;
}

static double target_of(const bench_codec_result *r) {
  static const struct {
    const char *operation, *encoding, *isa, *dtype, *form, *stores;
    double ratio;
  } rows[] = {
#define TARGET(operation, encoding, isa, dtype, form, stores, ratio) \
  {#operation, #encoding, #isa, #dtype, #form, #stores, ratio},
#include "bench/nabla-bench/codec.def"
#undef TARGET
  };
  const int plain = r->format.scale != NABLA_SCALE_F16 &&
                    r->format.scale != NABLA_SCALE_BF16 &&
                    r->format.scale != NABLA_SCALE_DYNAMIC8 &&
                    !r->format.zero_point;
  const char *const is[] = {r->operation,
                            r->format.encoding->name,
                            nabla_isa_name(r->isa),
                            r->dtype == NABLA_DTYPE_F32 ? "F32" : "half",
                            plain ? "plain" : "other",
                            r->stores};
  if (r->search) return 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *const wants[] = {rows[i].operation, rows[i].encoding,
                                 rows[i].isa,       rows[i].dtype,
                                 rows[i].form,      rows[i].stores};
    size_t k = 0;
    while (k < 6 && (!strcmp(wants[k], "any") || !strcmp(wants[k], is[k]))) k++;
    if (k == 6) return rows[i].ratio;
  }
  return 0;
}

static nabla_status measure(bench *b, const job *j, nabla_diag *diag) {
  double warm_up;
  NABLA_TRY(time_job(b, j, &warm_up, diag));
  for (uint32_t i = 0; i < b->repetitions; i++) {
    b->copy_times[i] = time_copy(b);
    NABLA_TRY(time_job(b, j, &b->kernel_times[i], diag));
  }
  const double width = nabla_dtype_bits(j->codec.dtype) / 8;
  const double values = 1e-9 * (double)b->count;
  double copy = median(b->copy_times, b->repetitions);
  double kernel = median(b->kernel_times, b->repetitions);
  bench_codec_result result = {
      .format = j->codec.format,
      .operation = j->decode ? "decode" : "encode",
      .stores = !j->decode  ? "any"
                : j->stream ? "nt"
                            : "plain",
      .isa = j->codec.isa,
      .dtype = j->codec.dtype,
      .search = j->codec.search,
      .gb_per_s = values * width / kernel,
      .memcpy_gb_per_s = values * sizeof *b->in / copy,
      .spread =
          (b->kernel_times[b->repetitions - 1] - b->kernel_times[0]) / kernel};
  result.ratio = result.gb_per_s / result.memcpy_gb_per_s;
  result.target = target_of(&result);
  b->report(b->context, &result);
  return NABLA_OK;
}

/* Measures encoding, then decoding of the result. */
static nabla_status measure_dtype(bench *b, nabla_isa isa,
                                  const nabla_format *format, nabla_dtype dtype,
                                  int search, nabla_diag *diag) {
  const nabla_codec_options how = {
      .struct_size = sizeof how, .isa = isa, .dtype = dtype, .search = search};
  const size_t width = nabla_dtype_bits(dtype) / 8;
  job j = {0};
  NABLA_TRY(nabla_codec_select(format, &how, &j.codec, diag));
  if (dtype != NABLA_DTYPE_F32)
    (void)nabla_from_f32(dtype, b->in, b->count, b->half);
  NABLA_TRY(measure(b, &j, diag));
  if (search || format->scale == NABLA_SCALE_DYNAMIC8) return NABLA_OK;
  j.decode = 1;
  NABLA_TRY(measure(b, &j, diag));
  j.stream = 1;
  return b->count >= NABLA_STREAM_BYTES / width ? measure(b, &j, diag)
                                                : NABLA_OK;
}

/* Measures the encoding with its usual settings, from and to each dtype. */
static nabla_status measure_encoding(bench *b, nabla_isa isa,
                                     const nabla_encoding *e, uint64_t block,
                                     nabla_diag *diag) {
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_BF16,
                                       NABLA_DTYPE_F16};
  nabla_format format = {.encoding = e, .block = block};
  if (e->is_mx) format.block = NABLA_BLOCK_MX, format.scale = NABLA_SCALE_E8M0;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    NABLA_TRY(measure_dtype(b, isa, &format, dtypes[i], 0, diag));
  if (e->is_mx) return NABLA_OK;
  format.scale = NABLA_SCALE_F16;
  NABLA_TRY(measure_dtype(b, isa, &format, NABLA_DTYPE_F32, 0, diag));
  format.scale = NABLA_SCALE_DYNAMIC8;
  NABLA_TRY(measure_dtype(b, isa, &format, NABLA_DTYPE_F32, 0, diag));
  format.scale = NABLA_SCALE_F32;
  if (e->has_zero_point) {
    format.zero_point = 1;
    NABLA_TRY(measure_dtype(b, isa, &format, NABLA_DTYPE_F32, 0, diag));
    format.zero_point = 0;
  }
  if (!e->has_rows) return NABLA_OK;
  format.granularity = NABLA_PER_ROW;
  format.block = BENCH_CODEC_ROW;
  return measure_dtype(b, isa, &format, NABLA_DTYPE_F32, 0, diag);
}

/* Measures the search of 4-bit tables, whose targets are in GB/s. */
static nabla_status measure_search(bench *b, nabla_isa isa,
                                   const nabla_encoding *e, uint64_t block,
                                   nabla_diag *diag) {
  nabla_format format = {.encoding = e, .block = block};
  if (e->is_mx) format.block = NABLA_BLOCK_MX, format.scale = NABLA_SCALE_E8M0;
  NABLA_TRY(measure_dtype(b, isa, &format, NABLA_DTYPE_F32, 1, diag));
  if (block != 64 || strcmp(e->name, "nf4") != 0) return NABLA_OK;
  format.block = 32;
  format.scale = NABLA_SCALE_F16;
  return measure_dtype(b, isa, &format, NABLA_DTYPE_F32, 1, diag);
}

static nabla_status measure_all(bench *b, const bench_codec_options *options,
                                uint64_t block, nabla_diag *diag) {
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) {
    if (options->encoding && options->encoding != &rows[i]) continue;
    NABLA_TRY(measure_encoding(b, options->isa, &rows[i], block, diag));
    NABLA_TRY(measure_search(b, options->isa, &rows[i], block, diag));
  }
  return NABLA_OK;
}

/* Allocates a buffer that begins with a huge page, so that page walks are not
 * part of the measurement. */
static nabla_status allocate_large(bench *b, size_t count, size_t size,
                                   void **out, nabla_diag *diag) {
  size_t bytes, room;
  void *block;
  if (!nabla_mul_size(count, size, &bytes) || bytes > SIZE_MAX - 2 * HUGE_PAGE)
    return nabla_fail(diag, NABLA_TOO_LARGE, "the buffer is too large");
  room = bytes + 2 * HUGE_PAGE;
  /* Not nabla_alloc, which touches the pages before they become huge. */
  const nabla_allocator *a =
      b->allocator ? b->allocator : nabla_allocator_default();
  block = a->resize(a->self, NULL, 0, room);
  if (!block)
    return nabla_fail(diag, NABLA_NO_MEMORY, "cannot allocate %zu bytes", room);
  b->blocks[b->block_count] = block;
  b->block_sizes[b->block_count++] = room;
  const uintptr_t begin = (uintptr_t)block;
  const size_t skip = (size_t)(HUGE_PAGE - begin % HUGE_PAGE);
  uint8_t *at = (uint8_t *)block + skip;
#ifdef MADV_HUGEPAGE /* a hint; its effect shows in the figures */
  (void)madvise(at, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  at += (b->block_count - 1) * STAGGER;
  memset(at, 0, bytes); /* touch every page */
  *out = at;
  return NABLA_OK;
}

static nabla_status allocate(bench *b, nabla_diag *diag) {
  void *block;
  NABLA_TRY(allocate_large(b, b->count, sizeof *b->in, &block, diag));
  b->in = block;
  NABLA_TRY(allocate_large(b, b->count, sizeof *b->out, &block, diag));
  b->out = block;
  NABLA_TRY(allocate_large(b, b->count, 2, &b->half, diag));
  NABLA_TRY(allocate_large(b, b->scale_count, sizeof(float), &b->packed.scales,
                           diag));
  NABLA_TRY(allocate_large(b, b->scale_count, 1, &block, diag));
  b->packed.zero_points = block;
  NABLA_TRY(allocate_large(b, b->count, 1, &block, diag));
  b->packed.codes = block;
  const uint32_t times = b->repetitions;
  NABLA_TRY(
      nabla_alloc(b->allocator, times, sizeof *b->kernel_times, &block, diag));
  b->kernel_times = block;
  NABLA_TRY(
      nabla_alloc(b->allocator, times, sizeof *b->copy_times, &block, diag));
  b->copy_times = block;
  return NABLA_OK;
}

static void release(bench *b) {
  const nabla_allocator *a = b->allocator;
  for (size_t i = 0; i < b->block_count; i++)
    nabla_free(a, b->blocks[i], b->block_sizes[i], 1);
  nabla_free(a, b->kernel_times, b->repetitions, sizeof *b->kernel_times);
  nabla_free(a, b->copy_times, b->repetitions, sizeof *b->copy_times);
}

nabla_status bench_measure_codecs(const bench_codec_options *options,
                                  const nabla_allocator *allocator,
                                  bench_codec_report report, void *context,
                                  nabla_diag *diag) {
  uint64_t bytes = options->bytes ? options->bytes : DEFAULT_BYTES;
  uint64_t rows = bytes / (BENCH_CODEC_ROW * sizeof(float));
  bench b = {.allocator = allocator, .report = report, .context = context};
  b.repetitions =
      options->repetitions ? options->repetitions : DEFAULT_REPETITIONS;
  if (b.repetitions > MAX_REPETITIONS)
    return nabla_fail(diag, NABLA_TOO_LARGE, "more than %d repetitions",
                      MAX_REPETITIONS);
  size_t whole_rows;
  if (!nabla_cast_size(rows ? rows : 1, &whole_rows) ||
      !nabla_mul_size(whole_rows, BENCH_CODEC_ROW, &b.count))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the buffer is too large");
  b.scale_count = b.count / NABLA_BLOCK_MIN;

  nabla_status status = allocate(&b, diag);
  if (!status) {
    fill_normal(b.in, b.count);
    uint64_t block = options->block ? options->block : 64;
    status = measure_all(&b, options, block, diag);
  }
  release(&b);
  return status;
}
