/* nabla-run as a table: its options, and the tool but for `set` and `self`. */
#ifndef NABLA_TOOLS_RUN_TABLES_H
#define NABLA_TOOLS_RUN_TABLES_H

#include "tools/common/options.h"

enum {
#define OPTION(id, ...) RUN_OPTION_##id,
#include "tools/nabla-run/options.def"
#undef OPTION
  RUN_OPTION_COUNT
};

extern const tool_option run_option_rows[RUN_OPTION_COUNT];
extern const tool run_tool;

#endif
