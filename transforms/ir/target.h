/* Targets: the interface through which dispatch and lowering ask what a machine
 * computes. Rows of targets.def; a target is static for ever. */
#ifndef NABLA_TRANSFORMS_IR_TARGET_H
#define NABLA_TRANSFORMS_IR_TARGET_H

#include <mlir-c/IR.h>
#include <stdbool.h>

#include "lib/kernels/fused_kernel.h"

/* How fused operations are lowered. */
typedef struct nabla_target_settings {
  nabla_features features; /* of the target */
  nabla_numerics numerics;
} nabla_target_settings;

typedef struct nabla_target {
  const char *name;
  /* Reads features as text, as passes have them; unknown ones are ignored. */
  nabla_features (*features)(const char *text);
  /* Why it has no kernel for `spec`, as static text, or NULL. Without features,
   * as dispatch asks: whether each machine of the target has one. */
  const char *(*objection)(const nabla_fused_spec *spec);
  /* Replaces a nabla.fused_dot by a call of its kernels; false after a
   * diagnostic. */
  bool (*lower_fused)(MlirOperation op, const struct nabla_target *target,
                      const nabla_target_settings *settings);
  /* The same for a nabla.fused_attention. */
  bool (*lower_attention)(MlirOperation op,
                          const nabla_target_settings *settings);
} nabla_target;

#define TARGET(id, machine, summary) \
  extern const nabla_target nabla_target_##id;
#include "transforms/ir/targets.def"
#undef TARGET

/* The target of that name; "host": the one of this machine. NULL when there is
 * none. */
const nabla_target *nabla_target_find(const char *name);

/* The target of a machine by LLVM's triple: the first row that takes it. */
const nabla_target *nabla_target_of_triple(const char *triple);

/* The names, "host" first, with ", " between them. */
const char *nabla_target_names(void);

/* The same for an option of a pass on `op`, with a diagnostic where there is no
 * such target. */
const nabla_target *nabla_target_read(MlirOperation op, const char *name);

/* Rules get an operation alone: while a pass runs, the operation that it runs
 * on says the target. */
void nabla_target_mark(MlirOperation anchor, const nabla_target *target);
void nabla_target_unmark(MlirOperation anchor);
/* The target that an operation around `op` says; else this machine's. */
const nabla_target *nabla_target_of(MlirOperation op);

#endif
