/* Rows of nabla/compile_options.def as data: what reads compile options by row,
 * in the tools and in the compiler. */
#ifndef NABLA_BASE_COMPILE_OPTIONS_H
#define NABLA_BASE_COMPILE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "nabla/compiler.h"
#include "nabla/status.h"

typedef enum nabla_compile_option_kind {
  NABLA_COMPILE_OPTION_TEXT,
  NABLA_COMPILE_OPTION_CHOICE,
  NABLA_COMPILE_OPTION_FLAG, /* a choice without an argument */
  NABLA_COMPILE_OPTION_FILES,
} nabla_compile_option_kind;

typedef struct nabla_compile_option {
  nabla_compile_option_kind kind;
  const char *id, *flag, *argument; /* no argument of flags */
  const char *values;               /* "a|b", of a choice or a flag */
  const char *fallback;             /* NULL of files */
  const char *help;
  size_t member, count; /* offsets in nabla_compile_options; `count` of files */
} nabla_compile_option;

enum {
#define NABLA_OPTION_TEXT(id, flag, argument, fallback, help) \
  NABLA_COMPILE_OPTION_##id,
#define NABLA_OPTION_CHOICE(id, flag, argument, values, fallback, help) \
  NABLA_COMPILE_OPTION_##id,
#define NABLA_OPTION_FLAG(id, flag, help) NABLA_COMPILE_OPTION_##id,
#define NABLA_OPTION_FILES(id, count, flag, argument, help) \
  NABLA_COMPILE_OPTION_##id,
#include "nabla/compile_options.def"
#undef NABLA_OPTION_TEXT
#undef NABLA_OPTION_CHOICE
#undef NABLA_OPTION_FLAG
#undef NABLA_OPTION_FILES
  NABLA_COMPILE_OPTIONS
};

extern const nabla_compile_option
    nabla_compile_option_rows[NABLA_COMPILE_OPTIONS];

/* The row whose flag is `flag`, or NULL. */
const nabla_compile_option *nabla_compile_option_find(const char *flag);

/* The member of a text, a choice or a flag; where it is NULL its fallback,
 * which of the policy is NABLA_POLICY in the environment if that is set. */
const char *nabla_compile_option_text(const nabla_compile_option *row,
                                      const nabla_compile_options *options);

/* The names of a row of files; `out` may be NULL. */
size_t nabla_compile_option_files(const nabla_compile_option *row,
                                  const nabla_compile_options *options,
                                  const char *const **out);

/* Whether the member of `row` differs from a zero-initialised one. */
bool nabla_compile_option_given(const nabla_compile_option *row,
                                const nabla_compile_options *options);

/* Sets the member of a text, a choice or a flag, which is borrowed. */
void nabla_compile_option_set(const nabla_compile_option *row,
                              nabla_compile_options *options,
                              const char *value);

/* Sets the member of a row of files to `count` names, which are borrowed. */
void nabla_compile_option_set_files(const nabla_compile_option *row,
                                    nabla_compile_options *options,
                                    const char *const *names, size_t count);

/* Refuses a choice that the row does not have.
 * @return NABLA_INVALID_ARGUMENT */
NABLA_MUST_USE nabla_status nabla_compile_options_check(
    const nabla_compile_options *options, nabla_diag *diag);

#endif
