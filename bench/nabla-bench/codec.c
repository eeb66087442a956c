/* The verb codec: encoding and decoding, compared with memcpy. */
#include <string.h>

#include "bench/nabla-bench/bench.h"
#include "bench/nabla-bench/codec_measure.h"
#include "tools/nabla-quant/cli.h"

#define DEFAULT_MIB   512
#define DEFAULT_TURNS 7

static void print_head(void) {
  printf("%-24s %-7s %-5s %-7s %9s %12s %6s %6s %7s\n", "encoding", "what",
         "dtype", "isa", "GB/s", "memcpy GB/s", "ratio", "target", "spread");
}

/* "nf4/64:f16 search": what differs from f32 scales as absmax gives them. */
static void name_of(const bench_codec_result *result, char *out, size_t size) {
  char name[64];
  cli_format_text(&result->format, name);
  snprintf(out, size, "%s%s", name, result->search ? " search" : "");
}

static void print_row(const bench_codec_result *result) {
  char name[96], what[24], target[16] = "";
  name_of(result, name, sizeof name);
  snprintf(what, sizeof what, "%s%s", result->operation,
           !strcmp(result->stores, "nt") ? " nt" : "");
  if (result->target > 0)
    snprintf(target, sizeof target, "%.2f", result->target);
  printf("%-24s %-9s %-5s %-7s %7.2f %12.2f %6.2f %6s %6.1f%%\n", name, what,
         nabla_dtype_name(result->dtype), nabla_isa_name(result->isa),
         result->gb_per_s, result->memcpy_gb_per_s, result->ratio, target,
         result->spread * 100);
  fflush(stdout); /* a measurement takes seconds */
}

static void json_row(nabla_json_out *out, const bench_codec_result *result) {
  nabla_json_out_object(out);
  cli_json_format(out, &result->format);
  cli_json_text(out, "operation", result->operation);
  cli_json_text(out, "stores", result->stores);
  cli_json_text(out, "dtype", nabla_dtype_name(result->dtype));
  cli_json_text(out, "isa", nabla_isa_name(result->isa));
  nabla_json_out_key(out, "search");
  nabla_json_out_bool(out, result->search);
  cli_json_real(out, "gb_per_s", result->gb_per_s);
  cli_json_real(out, "memcpy_gb_per_s", result->memcpy_gb_per_s);
  cli_json_real(out, "ratio", result->ratio);
  if (result->target > 0)
    cli_json_real(out, "target", result->target);
  else
    cli_json_none(out, "target");
  cli_json_real(out, "spread", result->spread);
  nabla_json_out_object_end(out);
}

typedef struct codec_output {
  nabla_json_out json;
  int is_json;
} codec_output;

static void report(void *context, const bench_codec_result *result) {
  codec_output *self = context;
  if (self->is_json)
    json_row(&self->json, result);
  else
    print_row(result);
}

/* An instruction set by the word of --isa, which kernels have another for. */
static nabla_isa isa_of(const char *word) {
  if (!strcmp(word, "portable")) return NABLA_ISA_SCALAR;
  nabla_isa isa = NABLA_ISA_BEST;
  while (strcmp(nabla_isa_name(isa), word)) isa++; /* legal: options.def */
  return isa;
}

nabla_status bench_run_codec(bench_settings *s, nabla_diag *diag) {
  codec_output output = {.is_json = s->json};
  bench_codec_options how = {
      .isa = isa_of(s->problem.isa),
      .block = s->problem.block,
      .bytes = (s->size_mib ? s->size_mib : DEFAULT_MIB) << 20,
      .repetitions = (uint32_t)(s->turns ? s->turns : DEFAULT_TURNS)};
  if (how.block == BENCH_BLOCK_ROW)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "codec measures blocks of a number of values");
  if (s->encoding) {
    how.encoding = nabla_encoding_find(s->encoding);
    if (!how.encoding)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "--encoding: unknown encoding '%s'", s->encoding);
  }
  if (s->json) {
    bench_json_begin(&output.json, s->verb);
    bench_json_count(&output.json, "buffer_bytes", how.bytes);
    bench_json_count(&output.json, "turns", how.repetitions);
    nabla_json_out_key(&output.json, "rows");
    nabla_json_out_array(&output.json);
  } else {
    print_head();
  }
  nabla_status status = bench_measure_codecs(&how, NULL, report, &output, diag);
  if (!s->json) return status;
  nabla_json_out_array_end(&output.json);
  if (status) {
    bench_json_error(&output.json, diag);
    s->printed = 1;
    (void)!bench_json_end(&output.json, NULL);
    return status;
  }
  return bench_json_end(&output.json, diag);
}
