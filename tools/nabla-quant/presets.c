/* What --preset stands for. */
#include "tools/nabla-quant/cli.h"

static const struct {
  const char *encoding;
  nabla_settings settings;
} presets[] = {
#define PRESET(id, encoding, size, type, searched, summary) \
  {#encoding,                                               \
   {.block = size,                                          \
    .has_scale = 1,                                         \
    .scale = NABLA_SCALE_##type,                            \
    .search = searched}},
#include "tools/nabla-quant/presets.def"
#undef PRESET
};

/* What is given beside a preset wins; an encoding that is given takes what it
 * can have. */
void cli_preset_apply(cli_options *o) {
  nabla_settings *settings = &o->quantize.settings;
  if (!cli_given(o, CLI_OPTION_preset)) return;
  const nabla_settings *preset = &presets[o->preset].settings;
  if (!cli_given(o, CLI_OPTION_encoding))
    o->quantize.encoding = nabla_encoding_find(presets[o->preset].encoding);
  if (!o->quantize.encoding) return;
  const int is_mx = o->quantize.encoding->is_mx;
  if (!settings->block && !is_mx) settings->block = preset->block;
  if (!settings->has_scale && !is_mx) {
    settings->has_scale = preset->has_scale;
    settings->scale = preset->scale;
  }
  if (settings->block != NABLA_BLOCK_ROW &&
      settings->block != NABLA_BLOCK_TENSOR)
    settings->search |= preset->search;
}
