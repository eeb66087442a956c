/* See target.h. */
#include "transforms/ir/target.h"

#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "transforms/ir/ir.h"

#define ATTRIBUTE "nabla.target"

static const struct {
  const nabla_target *target;
  const char *machine;
} rows[] = {
#define TARGET(id, machine, summary) {&nabla_target_##id, machine},
#include "transforms/ir/targets.def"
#undef TARGET
};
#define ROWS (sizeof rows / sizeof *rows)

const nabla_target *nabla_target_of_triple(const char *triple) {
  const size_t length = strcspn(triple, "-");
  for (size_t i = 0; i < ROWS; i++)
    if (!*rows[i].machine || (strlen(rows[i].machine) == length &&
                              !memcmp(rows[i].machine, triple, length)))
      return rows[i].target;
  return NULL;
}

static const nabla_target *find(const char *name, size_t length) {
#if defined(__x86_64__)
  static const char here[] = "x86_64";
#else
  static const char here[] = "other";
#endif
  if (length == 4 && !memcmp(name, "host", 4))
    return nabla_target_of_triple(here);
  for (size_t i = 0; i < ROWS; i++) {
    const nabla_target *target = rows[i].target;
    if (target && strlen(target->name) == length &&
        !memcmp(target->name, name, length))
      return target;
  }
  return NULL;
}

const nabla_target *nabla_target_find(const char *name) {
  return find(name, strlen(name));
}

const nabla_target *nabla_target_read(MlirOperation op, const char *name) {
  const nabla_target *target = nabla_target_find(name);
  if (!target)
    (void)nabla_error_at(op, "there is no target '%s': legal are %s", name,
                         nabla_target_names());
  return target;
}

const char *nabla_target_names(void) {
  return "host"
#define TARGET(id, machine, summary) ", " #id
#include "transforms/ir/targets.def"
#undef TARGET
      ;
}

void nabla_target_mark(MlirOperation anchor, const nabla_target *target) {
  MlirContext context = mlirOperationGetContext(anchor);
  mlirOperationSetAttributeByName(
      anchor, nabla_ref(ATTRIBUTE),
      mlirStringAttrGet(context, nabla_ref(target->name)));
}

void nabla_target_unmark(MlirOperation anchor) {
  (void)mlirOperationRemoveAttributeByName(anchor, nabla_ref(ATTRIBUTE));
}

const nabla_target *nabla_target_of(MlirOperation op) {
  for (; !mlirOperationIsNull(op); op = mlirOperationGetParentOperation(op)) {
    MlirAttribute said =
        mlirOperationGetAttributeByName(op, nabla_ref(ATTRIBUTE));
    if (mlirAttributeIsNull(said) || !mlirAttributeIsAString(said)) continue;
    const MlirStringRef name = mlirStringAttrGetValue(said);
    const nabla_target *target = find(name.data, name.length);
    if (target) return target;
  }
  return nabla_target_find("host");
}
