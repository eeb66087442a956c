/* nabla-quant bench: speed of encode and decode, beside memcpy. */
#include "nabla/bench.h"

#include "tools/nabla-quant/cli.h"

static void print_head(void) {
  printf("%-10s %-7s %-7s %9s %12s %6s %7s\n", "encoding", "what", "isa",
         "GB/s", "memcpy GB/s", "ratio", "spread");
}

static void report(void *context, const nabla_bench_result *result) {
  cli *c = context;
  nabla_format format = {.encoding = result->encoding,
                         .granularity = result->granularity,
                         .block = result->block};
  char name[64];
  if (!cli_given(&c->options, CLI_OPTION_json)) {
    cli_format_text(&format, name);
    printf("%-10s %-7s %-7s %9.2f %12.2f %6.2f %6.1f%%\n", name,
           result->operation, nabla_isa_name(result->isa), result->gb_per_s,
           result->memcpy_gb_per_s, result->ratio, result->spread * 100);
    fflush(stdout); /* a measurement takes seconds */
    return;
  }
  nabla_json_out_object(&c->json);
  cli_json_format(&c->json, &format);
  cli_json_text(&c->json, "operation", result->operation);
  cli_json_text(&c->json, "isa", nabla_isa_name(result->isa));
  cli_json_real(&c->json, "gb_per_s", result->gb_per_s);
  cli_json_real(&c->json, "memcpy_gb_per_s", result->memcpy_gb_per_s);
  cli_json_real(&c->json, "ratio", result->ratio);
  cli_json_real(&c->json, "spread", result->spread);
  nabla_json_out_object_end(&c->json);
}

nabla_status cli_run_bench(cli *c, nabla_diag *diag) {
  const cli_options *o = &c->options;
  int json = cli_given(o, CLI_OPTION_json);
  nabla_bench_options how = {.isa = o->quantize.isa,
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
    print_head();
  }
  nabla_status status = nabla_bench_codecs(&how, NULL, report, c, diag);
  if (json) nabla_json_out_array_end(&c->json);
  return status;
}
