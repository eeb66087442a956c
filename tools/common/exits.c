/* Exit codes: the rows of exits.def. */
#include "tools/common/options.h"

static const tool_exit rows[] = {
#define EXIT(id, code, meaning) {code, meaning},
#define STATUS(status, id)
#include "tools/common/exits.def"
#undef EXIT
#undef STATUS
};

tool_exit tool_exit_row(const tool *t, size_t index) {
  if (index >= sizeof rows / sizeof *rows) return (tool_exit){0, NULL};
  tool_exit row = rows[index];
  if (!t->failed) return row;
  if (row.code == TOOL_EXIT_SIGNAL) return (tool_exit){0, NULL}; /* the last */
  if (row.code == TOOL_EXIT_FAILED) row.meaning = t->failed;
  return row;
}

int tool_exit_of_status(nabla_status status) {
  /* a status without a row does not compile: no default, -Wswitch */
  switch (status) {
#define EXIT(id, code, meaning)
#define STATUS(status, id) \
  case NABLA_##status:     \
    return TOOL_EXIT_##id;
#include "tools/common/exits.def"
#undef EXIT
#undef STATUS
  }
  return TOOL_EXIT_UNSUPPORTED;
}
