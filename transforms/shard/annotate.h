/* The compile options `mesh` and `shard` (nabla/compile_options.def). */
#ifndef NABLA_TRANSFORMS_SHARD_ANNOTATE_H
#define NABLA_TRANSFORMS_SHARD_ANNOTATE_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* The text of --shard that gave an argument its nabla.sharding: an attribute
 * that nabla-propagate-sharding takes away. */
#define NABLA_SHARD_OPTION "nabla.shard_option"

/* Gives a module a mesh, or the axes of its mesh other sizes, and arguments
 * whose names match a pattern a sharding. `mesh`: "data=2,model=4"; `shard`:
 * "PATTERN=SHARDING", several separated by ';'. Either may be empty. False
 * after an error, which is reported. */
bool nabla_shard_annotate(MlirOperation module, const char *mesh,
                          const char *shard);

#endif
