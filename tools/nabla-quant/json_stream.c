/* JSON on standard output, streamed; docs/JSON.md says what is in it. */
#include <errno.h>
#include <string.h>

#include "lib/base/json/json.h"
#include "tools/nabla-quant/cli.h"

static nabla_status write_stream(void *self, const void *data, size_t size,
                                 nabla_diag *diag) {
  if (fwrite(data, 1, size, self) == size) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "%s", strerror(errno));
}

nabla_json_out cli_json_to(FILE *stream) {
  return (nabla_json_out){.self = stream, .write = write_stream, .spaced = 1};
}

/* Keeps the reason of the first failure: the writer gives up then, so that
 * flushing standard output at the end has nothing left to fail with. */
static nabla_status write_stdout(void *self, const void *data, size_t size,
                                 nabla_diag *diag) {
  cli *c = self;
  if (fwrite(data, 1, size, stdout) == size) return NABLA_OK;
  if (!c->write_error) c->write_error = errno;
  return nabla_fail(diag, NABLA_IO, "%s", strerror(c->write_error));
}

void cli_json_begin(cli *c) {
  c->json = (nabla_json_out){.self = c, .write = write_stdout, .spaced = 1};
  c->json_begun = 1;
  nabla_json_out_object(&c->json);
  cli_json_text(&c->json, "schema", "nabla-quant/1");
  cli_json_text(&c->json, "verb",
                c->options.verb < CLI_VERB_COUNT
                    ? cli_verbs[c->options.verb].name
                    : NULL);
}

void cli_json_text(nabla_json_out *out, const char *key, const char *value) {
  nabla_json_out_key(out, key);
  if (value)
    nabla_json_out_string(out, value);
  else
    nabla_json_out_null(out);
}

void cli_json_name(nabla_json_out *out, const char *key, const char *text,
                   size_t length) {
  nabla_json_out_key(out, key);
  nabla_json_out_string_n(out, text, length);
}

void cli_json_number(nabla_json_out *out, const char *key, uint64_t value) {
  nabla_json_out_key(out, key);
  nabla_json_out_u64(out, value);
}

void cli_json_real(nabla_json_out *out, const char *key, double value) {
  nabla_json_out_key(out, key);
  nabla_json_out_double(out, value);
}

void cli_json_flag(nabla_json_out *out, const char *key, int value) {
  nabla_json_out_key(out, key);
  nabla_json_out_bool(out, value);
}

void cli_json_none(nabla_json_out *out, const char *key) {
  nabla_json_out_key(out, key);
  nabla_json_out_null(out);
}

void cli_json_shape(nabla_json_out *out, const nabla_tensor *tensor) {
  nabla_json_out_key(out, "shape");
  nabla_json_out_array(out);
  for (uint32_t i = 0; i < tensor->rank; i++)
    nabla_json_out_u64(out, tensor->shape[i]);
  nabla_json_out_array_end(out);
}

void cli_json_format(nabla_json_out *out, const nabla_format *format) {
  if (!format->encoding) {
    static const char *const keys[] = {"encoding", "block", "scale",
                                       "zero_point", "blocks"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      cli_json_none(out, keys[i]);
    return;
  }
  cli_json_text(out, "encoding", format->encoding->name);
  if (format->granularity == NABLA_PER_ROW)
    cli_json_text(out, "block", "row");
  else if (format->granularity == NABLA_PER_TENSOR)
    cli_json_text(out, "block", "tensor");
  else
    cli_json_number(out, "block", format->block);
  cli_json_text(out, "scale", nabla_scale_info_of(format->scale)->option);
  cli_json_flag(out, "zero_point", format->zero_point);
  cli_json_text(out, "blocks", format->segment ? "leading" : "flat");
}

static const char *text_or_null(const char *text) {
  return *text ? text : NULL;
}

void cli_json_diag(nabla_json_out *out, const nabla_diag *diag) {
  cli_json_text(out, "status", nabla_status_name(diag->code));
  cli_json_text(out, "file", text_or_null(diag->file));
  cli_json_text(out, "tensor", text_or_null(diag->tensor));
  if (diag->offset == NABLA_NO_OFFSET)
    cli_json_none(out, "offset");
  else
    cli_json_number(out, "offset", diag->offset);
  cli_json_text(out, "what", diag->what);
  cli_json_text(out, "next", text_or_null(diag->next));
}

nabla_status cli_json_end(cli *c, nabla_status status, int exit_code,
                          const nabla_diag *why, nabla_diag *diag) {
  if (!c->json_begun) cli_json_begin(c);
  c->json.diag = diag;
  if (status) {
    nabla_json_out_key(&c->json, "error");
    nabla_json_out_object(&c->json);
    cli_json_diag(&c->json, why);
    cli_json_number(&c->json, "exit", (uint64_t)exit_code);
    nabla_json_out_object_end(&c->json);
  }
  nabla_json_out_object_end(&c->json);
  NABLA_TRY(nabla_json_out_finish(&c->json));
  return write_stdout(c, "\n", 1, diag);
}
