/* What nabla-run prints: times, shapes, JSON. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/base/json/json.h"
#include "tools/nabla-run/run.h"

void run_print_times(const run *r) {
  const nabla_compile_report c = r->compiled;
  if (r->is_saved)
    printf("open     %.2f ms\n", r->open_ms);
  else if (c.from_cache)
    printf("compile  parse %.2f ms, cached, link %.2f ms\n", c.parse_ms,
           c.link_ms);
  else
    printf(
        "compile  parse %.2f, passes %.2f, translate %.2f, optimise %.2f, "
        "codegen %.2f, link %.2f ms\n",
        c.parse_ms, c.passes_ms, c.translate_ms, c.optimize_ms, c.codegen_ms,
        c.link_ms);
  printf("run      %.4f ms\n", r->run_ms);
  if (r->settings->steps)
    printf("step     %.4f ms\n", r->run_ms / (double)r->settings->steps);
  struct rusage use;
  if (!getrusage(RUSAGE_SELF, &use))
    printf(
        "memory   %.1f MiB of this process at most, %.2f MiB of weights "
        "bound\n",
        (double)use.ru_maxrss / 1024.0, (double)r->bound_bytes / 1048576.0);
}

void run_print_differences(const run *r) {
  for (size_t i = 0; i < r->settings->expect_count; i++)
    printf(
        "%s: %s, relative RMSE %.3g, largest difference %.3g\n",
        r->settings->expects[i],
        r->differences[i].relative <= r->settings->tolerance ? "ok" : "DIFFERS",
        r->differences[i].relative, r->differences[i].most);
}

static nabla_status write_stream(void *self, const void *data, size_t size,
                                 nabla_diag *diag) {
  if (fwrite(data, 1, size, self) == size) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "%s", strerror(errno));
}

static void text_or_null(nabla_json_out *out, const char *key,
                         const char *value) {
  nabla_json_out_key(out, key);
  if (value && *value)
    nabla_json_out_string(out, value);
  else
    nabla_json_out_null(out);
}

static void number(nabla_json_out *out, const char *key, double value) {
  nabla_json_out_key(out, key);
  nabla_json_out_double(out, value);
}

static void print_results(const run *r, nabla_json_out *out) {
  nabla_json_out_key(out, "results");
  nabla_json_out_array(out);
  for (size_t i = 0; i < r->function->result_count; i++) {
    const nabla_dense *array = &r->results[i];
    nabla_json_out_object(out);
    text_or_null(out, "name", r->function->results[i].name);
    text_or_null(out, "dtype", nabla_dtype_name(array->dtype));
    nabla_json_out_key(out, "shape");
    nabla_json_out_array(out);
    for (uint32_t k = 0; k < array->rank; k++)
      nabla_json_out_u64(out, (uint64_t)array->shape[k]);
    nabla_json_out_array_end(out);
    text_or_null(
        out, "file",
        i < r->settings->output_count ? r->settings->outputs[i] : NULL);
    if (i < r->settings->expect_count) {
      number(out, "relative_rmse", r->differences[i].relative);
      number(out, "largest_difference", r->differences[i].most);
      nabla_json_out_key(out, "within");
      nabla_json_out_bool(out,
                          r->differences[i].relative <= r->settings->tolerance);
    }
    nabla_json_out_object_end(out);
  }
  nabla_json_out_array_end(out);
}

static void print_compile(const run *r, nabla_json_out *out) {
  const nabla_compile_report c = r->compiled;
  nabla_json_out_key(out, "compile");
  nabla_json_out_object(out);
  nabla_json_out_key(out, "from_cache");
  nabla_json_out_bool(out, c.from_cache);
  number(out, "parse_ms", c.parse_ms);
  number(out, "passes_ms", c.passes_ms);
  number(out, "translate_ms", c.translate_ms);
  number(out, "optimize_ms", c.optimize_ms);
  number(out, "codegen_ms", c.codegen_ms);
  number(out, "link_ms", c.link_ms);
  nabla_json_out_object_end(out);
}

static void print_error(nabla_json_out *out, int exit_code,
                        const nabla_diag *why) {
  nabla_json_out_key(out, "error");
  nabla_json_out_object(out);
  text_or_null(out, "status", nabla_status_name(why->code));
  text_or_null(out, "file", why->file);
  text_or_null(out, "tensor", why->tensor);
  nabla_json_out_key(out, "offset");
  if (why->offset == NABLA_NO_OFFSET)
    nabla_json_out_null(out);
  else
    nabla_json_out_u64(out, why->offset);
  text_or_null(out, "what", why->what);
  text_or_null(out, "next", why->next);
  nabla_json_out_key(out, "exit");
  nabla_json_out_u64(out, (uint64_t)exit_code);
  nabla_json_out_object_end(out);
}

nabla_status run_print_json(const run *r, nabla_status status, int exit_code,
                            const nabla_diag *why) {
  nabla_json_out out = {.self = stdout, .write = write_stream, .spaced = 1};
  nabla_json_out_object(&out);
  nabla_json_out_key(&out, "schema");
  nabla_json_out_string(&out, "nabla-run/1");
  if (r->function && !status) {
    text_or_null(&out, "function", r->function->name);
    print_results(r, &out);
  }
  if (r->executable && r->is_saved)
    number(&out, "open_ms", r->open_ms);
  else if (r->executable)
    print_compile(r, &out);
  if (!status) {
    number(&out, "run_ms", r->run_ms);
    nabla_json_out_key(&out, "bound_bytes");
    nabla_json_out_u64(&out, r->bound_bytes);
    nabla_json_out_key(&out, "copied_bytes");
    nabla_json_out_u64(&out, r->copied_bytes);
    if (run_is_profiled(r)) run_json_profile(r, &out);
  } else {
    print_error(&out, exit_code, why);
  }
  nabla_json_out_object_end(&out);
  NABLA_TRY(nabla_json_out_finish(&out));
  return write_stream(stdout, "\n", 1, NULL);
}
