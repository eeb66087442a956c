/* The verb codec: what nabla-quant bench measures. */
#include "bench/nabla-bench/bench.h"
#include "nabla/bench.h"
#include "tools/nabla-quant/bench_rows.h"

typedef struct codec_output {
  nabla_json_out json;
  int is_json;
} codec_output;

static void report(void *context, const nabla_bench_result *result) {
  codec_output *self = context;
  if (self->is_json)
    cli_json_bench_row(&self->json, result);
  else
    cli_print_bench_row(result);
}

nabla_status bench_run_codec(bench_settings *s, nabla_diag *diag) {
  codec_output output = {.is_json = s->json};
  nabla_bench_options how = {.struct_size = sizeof how,
                             .block = s->problem.block,
                             .bytes = s->size_mib << 20};
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
    nabla_json_out_key(&output.json, "rows");
    nabla_json_out_array(&output.json);
  } else {
    cli_print_bench_head();
  }
  nabla_status status = nabla_bench_codecs(&how, NULL, report, &output, diag);
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
