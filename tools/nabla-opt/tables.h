/* nabla-opt as a table: its options, and the tool but for `set` and `self`. */
#ifndef NABLA_TOOLS_OPT_TABLES_H
#define NABLA_TOOLS_OPT_TABLES_H

#include "tools/common/options.h"

enum {
#define OPTION(id, ...) OPT_OPTION_##id,
#include "tools/nabla-opt/options.def"
#undef OPTION
  OPT_OPTION_COUNT
};

extern const tool_option opt_option_rows[OPT_OPTION_COUNT];
extern const tool opt_tool;

#endif
