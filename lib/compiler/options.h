/* Compile options as the compiler needs them: values for stages of pipelines,
 * and a text for keys of the object cache. */
#ifndef NABLA_COMPILER_OPTIONS_H
#define NABLA_COMPILER_OPTIONS_H

#include "lib/base/compile_options.h"
#include "lib/compiler/target.h"
#include "lib/kernels/builder/text.h"
#include "transforms/pipelines.h"

#define NABLA_COMPILE_FILES_MAX 16 /* of an option */

/* Zero-initialised is valid. The values of options are borrowed. */
typedef struct nabla_option_values {
  /* options, target and features, and the row that ends it */
  nabla_pipeline_value list[NABLA_COMPILE_OPTIONS + 3];
  nabla_text files[NABLA_COMPILE_OPTIONS]; /* names, with ';' between them */
} nabla_option_values;

/* Checks all options but the target's text, and fills `out`. `features` is
 * borrowed: those of `machine` that kernels may use.
 * @return NABLA_INVALID_ARGUMENT, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_option_values_init(
    nabla_option_values *out, const nabla_compile_options *options,
    const nabla_machine *machine, const char *features, nabla_diag *diag);
void nabla_option_values_deinit(nabla_option_values *values);

/* Appends a line "ID=VALUE" for each option, as keys have them. */
void nabla_options_describe(const nabla_option_values *values, nabla_text *out);

/* Whether files are named, which may change between two compilations. */
bool nabla_options_have_files(const nabla_compile_options *options);

#endif
