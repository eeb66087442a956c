/* nabla-quant bench: speed of encode and decode, beside memcpy. */
#include "nabla/bench.h"

#include "tools/nabla-quant/bench_rows.h"
#include "tools/nabla-quant/cli.h"

static void report(void *context, const nabla_bench_result *result) {
  cli *c = context;
  if (cli_given(&c->options, CLI_OPTION_json))
    cli_json_bench_row(&c->json, result);
  else
    cli_print_bench_row(result);
}

nabla_status cli_run_bench(cli *c, nabla_diag *diag) {
  const cli_options *o = &c->options;
  int json = cli_given(o, CLI_OPTION_json);
  nabla_bench_options how = {.struct_size = sizeof how,
                             .isa = o->quantize.isa,
                             .block = o->quantize.settings.block,
                             .bytes = o->size_mib << 20,
                             .repetitions = (uint32_t)o->repeat};
  if (how.block == NABLA_BLOCK_ROW || how.block == NABLA_BLOCK_TENSOR)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "bench measures blocks of a number of values");
  if (cli_given(o, CLI_OPTION_encoding)) {
    how.encoding = o->quantize.encoding;
    if (!how.encoding)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "encoding 'none' has nothing to measure");
  }
  if (json) {
    cli_json_begin(c);
    cli_json_number(&c->json, "buffer_bytes", how.bytes);
    cli_json_number(&c->json, "repetitions", o->repeat);
    nabla_json_out_key(&c->json, "rows");
    nabla_json_out_array(&c->json);
  } else {
    cli_print_bench_head();
  }
  nabla_status status = nabla_bench_codecs(&how, NULL, report, c, diag);
  if (json) nabla_json_out_array_end(&c->json);
  return status;
}
