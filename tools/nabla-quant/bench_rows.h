/* What nabla-quant bench and nabla-bench codec print. */
#ifndef NABLA_TOOLS_BENCH_ROWS_H
#define NABLA_TOOLS_BENCH_ROWS_H

#include "lib/base/json/json.h"
#include "nabla/bench.h"

void cli_print_bench_head(void);
void cli_print_bench_row(const nabla_bench_result *result);
/* One object (docs/JSON.md, "bench"). */
void cli_json_bench_row(nabla_json_out *out, const nabla_bench_result *result);

#endif
