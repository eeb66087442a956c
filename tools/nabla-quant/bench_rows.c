/* Rows of measured codecs: see bench_rows.h. */
#include "tools/nabla-quant/bench_rows.h"

#include <string.h>

#include "tools/nabla-quant/cli.h"

void cli_print_bench_head(void) {
  printf("%-24s %-7s %-5s %-7s %9s %12s %6s %6s %7s\n", "encoding", "what",
         "dtype", "isa", "GB/s", "memcpy GB/s", "ratio", "target", "spread");
}

/* "nf4/64:f16 search": what differs from f32 scales as absmax gives them. */
static void name_of(const nabla_bench_result *result, char *out, size_t size) {
  char name[64];
  cli_format_text(&result->format, name);
  snprintf(out, size, "%s%s", name, result->search ? " search" : "");
}

void cli_print_bench_row(const nabla_bench_result *result) {
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

void cli_json_bench_row(nabla_json_out *out, const nabla_bench_result *result) {
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
