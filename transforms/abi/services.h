/* What the files of nabla-lower-services share. Functions are defined in
 * lower_services.c. */
#ifndef NABLA_TRANSFORMS_ABI_SERVICES_H
#define NABLA_TRANSFORMS_ABI_SERVICES_H

#include "transforms/ir/llvm_ops.h"

/* Attributes: of functions that are called as kernels, entry points, helpers
 * (services_helpers.h), of calls and functions that may fail; of the module
 * when the pass has run. */
#define NABLA_KERNEL_MARK   "nabla.kernel"
#define NABLA_ENTRY_MARK    "nabla.entry"
#define NABLA_HELPER_MARK   "nabla.helper"
#define NABLA_MAY_FAIL_MARK "nabla.may_fail"
#define NABLA_LOWERED_MARK  "nabla.lowered"
#define NABLA_MANIFEST_MARK "nabla.manifest"

typedef struct nabla_lowering {
  MlirContext context;
  MlirOperation module;
  MlirBlock body;
  MlirSymbolTable symbols;
  MlirType pointer, boolean;
  int failed;
  int changed;        /* in one round of marking what may fail */
  nabla_text entries; /* a module with the entry points */
} nabla_lowering;

/* Where a walk over one function stands. */
typedef struct nabla_function_walk {
  nabla_lowering *l;
  MlirOperation function;
  MlirValue services; /* null in kernels */
  MlirBlock fail;     /* null until the first call that may fail */
} nabla_function_walk;

/* An error at `op`: "'NAME' WHAT". */
void nabla_services_refuse(nabla_lowering *l, MlirOperation op,
                           const char *what, MlirStringRef name);

/* 1 for functions that have the services table as first argument. */
int nabla_services_taken_by(MlirOperation function);

/* The symbol that `attribute` of `op` names, or null. */
MlirOperation nabla_services_target(const nabla_lowering *l, MlirOperation op,
                                    const char *attribute,
                                    MlirStringRef *out_name);

/* Result of a call of a helper at the end of `block`, or before `before`. */
MlirValue nabla_services_call(nabla_lowering *l, MlirBlock block,
                              MlirOperation before, const char *helper,
                              intptr_t count, const MlirValue *operands,
                              MlirType result, MlirLocation location);

void nabla_services_each_function(nabla_lowering *l,
                                  void (*visit)(nabla_lowering *,
                                                MlirOperation));

/* services_failure.c: makes the size of an allocation, operand `number` of
 * `call`, one that cannot wrap. */
void nabla_services_check_size(nabla_function_walk *w, MlirOperation call,
                               intptr_t number);
/* services_failure.c: after each call that may fail, a look whether it has. */
void nabla_services_check_failures(nabla_lowering *l);
/* services_entries.c: entry points, the manifest, linkage. */
void nabla_services_add_entries(nabla_lowering *l);

#endif
