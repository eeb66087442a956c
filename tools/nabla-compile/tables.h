/* nabla-compile as a table: its options, and the tool but for `set` and `self`.
 */
#ifndef NABLA_TOOLS_COMPILE_TABLES_H
#define NABLA_TOOLS_COMPILE_TABLES_H

#include "tools/common/options.h"

enum {
#define OPTION(id, ...) COMPILE_OPTION_##id,
#include "tools/nabla-compile/options.def"
#undef OPTION
  COMPILE_OPTION_COUNT
};

extern const tool_option compile_option_rows[COMPILE_OPTION_COUNT];
extern const tool compile_tool;

#endif
