/* A parser for text with a name. */
#ifndef NABLA_TRANSFORMS_IR_NAMED_PARSE_H
#define NABLA_TRANSFORMS_IR_NAMED_PARSE_H

#include <mlir-c/IR.h>
#include <stddef.h>

/* As mlirModuleCreateParse, but locations and errors name `path` instead of
 * "-". `text` ends with a NUL beyond `size`. Null after errors. */
MlirModule nabla_parse_named(MlirContext context, const char *path,
                             const char *text, size_t size);

#endif
