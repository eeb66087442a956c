/* JSON of nabla-bench; docs/schema/nabla-bench-1.json describes it. */
#include "lib/base/json/json.h"

#include <errno.h>
#include <string.h>

#include "bench/nabla-bench/bench.h"
#include "tools/common/tool.h"

static nabla_status write_stream(void *self, const void *data, size_t size,
                                 nabla_diag *diag) {
  if (fwrite(data, 1, size, self) == size) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "%s", strerror(errno));
}

nabla_json_out bench_json_to_stdout(void) {
  return (nabla_json_out){.self = stdout, .write = write_stream, .spaced = 1};
}

void bench_json_text(nabla_json_out *out, const char *key, const char *value) {
  nabla_json_out_key(out, key);
  if (value && *value)
    nabla_json_out_string(out, value);
  else
    nabla_json_out_null(out);
}

void bench_json_number(nabla_json_out *out, const char *key, double value) {
  nabla_json_out_key(out, key);
  nabla_json_out_double(out, value);
}

void bench_json_count(nabla_json_out *out, const char *key, uint64_t value) {
  nabla_json_out_key(out, key);
  nabla_json_out_u64(out, value);
}

void bench_json_begin(nabla_json_out *out, bench_verb verb) {
  static const char *const names[] = {
#define VERB(id, ...) #id,
#include "bench/nabla-bench/verbs.def"
#undef VERB
      NULL};
  *out = bench_json_to_stdout();
  nabla_json_out_object(out);
  bench_json_text(out, "schema", "nabla-bench/1");
  bench_json_text(out, "verb", names[verb]);
}

void bench_json_error(nabla_json_out *out, const nabla_diag *why) {
  nabla_json_out_key(out, "error");
  nabla_json_out_object(out);
  bench_json_text(out, "status", nabla_status_name(why->code));
  bench_json_text(out, "file", why->file);
  bench_json_text(out, "what", why->what);
  bench_json_text(out, "next", why->next);
  bench_json_count(out, "exit", (uint64_t)tool_exit_of_status(why->code));
  nabla_json_out_object_end(out);
}

nabla_status bench_json_end(nabla_json_out *out, nabla_diag *diag) {
  nabla_json_out_object_end(out);
  NABLA_TRY(nabla_json_out_finish(out));
  return write_stream(stdout, "\n", 1, diag);
}
