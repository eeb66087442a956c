/* --help and --version of nabla-quant as JSON (docs/JSON.md). */
#include "nabla/version.h"
#include "tools/nabla-quant/cli.h"

void cli_json_about(cli *c, const tool_line *line) {
  nabla_json_out *json = &c->json;
  cli_json_begin(c);
  if (line->about == TOOL_ABOUT_VERSION) {
    cli_json_text(json, "version", NABLA_VERSION);
    return;
  }
  nabla_json_out_key(json, "help");
  nabla_json_out_object(json);
  tool_json_help(&cli_tool, line->verb, json);
  nabla_json_out_object_end(json);
}
