/* nabla-quant bench: speed of encode and decode, beside memcpy. */
#include "nabla/bench.h"

#include <string.h>

#include "tools/nabla-quant/cli.h"

static void print_head(void) {
  printf("%-24s %-7s %-5s %-7s %9s %12s %6s %6s %7s\n", "encoding", "what",
         "dtype", "isa", "GB/s", "memcpy GB/s", "ratio", "target", "spread");
}

/* "nf4/64 f16 search": what differs from f32 scales as absmax gives them. */
static void name_of(const nabla_bench_result *result, char *out, size_t size) {
  const nabla_format *format = &result->format;
  char name[64];
  cli_format_text(format, name);
  const int narrow = format->scale == NABLA_SCALE_F16 && !strchr(name, ' ');
  snprintf(out, size, "%s%s%s%s", name, narrow ? " f16" : "",
           format->zero_point ? " zero" : "", result->search ? " search" : "");
}

static void print_row(const nabla_bench_result *result) {
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

static void report(void *context, const nabla_bench_result *result) {
  cli *c = context;
  if (!cli_given(&c->options, CLI_OPTION_json)) {
    print_row(result);
    return;
  }
  nabla_json_out_object(&c->json);
  cli_json_format(&c->json, &result->format);
  cli_json_text(&c->json, "operation", result->operation);
  cli_json_text(&c->json, "stores", result->stores);
  cli_json_text(&c->json, "dtype", nabla_dtype_name(result->dtype));
  cli_json_text(&c->json, "isa", nabla_isa_name(result->isa));
  nabla_json_out_key(&c->json, "search");
  nabla_json_out_bool(&c->json, result->search);
  cli_json_real(&c->json, "gb_per_s", result->gb_per_s);
  cli_json_real(&c->json, "memcpy_gb_per_s", result->memcpy_gb_per_s);
  cli_json_real(&c->json, "ratio", result->ratio);
  if (result->target > 0)
    cli_json_real(&c->json, "target", result->target);
  else
    cli_json_none(&c->json, "target");
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
