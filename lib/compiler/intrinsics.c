/* Which intrinsics a target can do: LLVM ends the process when it meets one
 * that it cannot select, so that programs may use those of a table alone. */
#include <string.h>

#include "lib/compiler/codegen.h"

#define X86 "llvm.x86."

#define INTRINSIC(name, features) {name, features},
static const struct {
  const char *name, *features;
} rows[] = {
#include "lib/compiler/x86_intrinsics.def"
};
#undef INTRINSIC

/* Intrinsics that are not of one machine have no such first word. */
static const char *const other_machines[] = {
    "aarch64",   "amdgcn", "arm",   "bpf", "dx",   "hexagon",
    "loongarch", "mips",   "nvvm",  "ppc", "r600", "riscv",
    "s390",      "spv",    "ve",    "vax", "wasm", "xcore",
    "xtensa",    "msp430", "sparc", "avr", "csky", "directx"};

static int is_x86(const char *name, size_t length) {
  return length >= strlen(X86) && !memcmp(name, X86, strlen(X86));
}

/* The features of an intrinsic of x86, or NULL where it has no row. */
static const char *features_of(const char *name, size_t length) {
  name += strlen(X86), length -= strlen(X86);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i].name) == length && !memcmp(rows[i].name, name, length))
      return rows[i].features;
  return NULL;
}

/* The next feature of "a+b", and the rest behind it. */
static size_t take_feature(const char **list) {
  const size_t size = strcspn(*list, "+");
  const size_t feature = nabla_x86_feature_find(*list, size);
  *list += size + ((*list)[size] == '+');
  return feature;
}

/* The first feature that is missing, as a name of x86_features.def; or NULL. */
static const char *missing_of(const nabla_machine *target, const char *list) {
  while (*list) {
    const size_t feature = take_feature(&list);
    if (feature == NABLA_X86_FEATURE_COUNT) return "";
    if (!target->set.has[feature]) return nabla_x86_feature_name(feature);
    if (nabla_x86_feature_uses_tiles(feature) && !target->missing &&
        !target->runs_elsewhere && !nabla_x86_tiles_allowed())
      return nabla_x86_feature_name(feature);
  }
  return NULL;
}

int nabla_intrinsic_has_tiles(const char *name, size_t length) {
  size_t at = strlen(X86);
  return is_x86(name, length) && length > at && name[at] == 't';
}

void nabla_intrinsic_add(const char *name, size_t length,
                         nabla_x86_features *needed) {
  const char *list = is_x86(name, length) ? features_of(name, length) : NULL;
  while (list && *list) {
    const size_t feature = take_feature(&list);
    if (feature < NABLA_X86_FEATURE_COUNT)
      nabla_x86_feature_add(needed, feature);
  }
}

/* What kernels use of AArch64: every CPU has it. */
static int is_neon(const nabla_machine *target, const char *name,
                   size_t length) {
  static const char tbl[] = "llvm.aarch64.neon.tbl1.v16i8";
  return nabla_machine_is(target, "aarch64") && length == strlen(tbl) &&
         !memcmp(name, tbl, length);
}

const char *nabla_intrinsic_objection(const nabla_machine *target,
                                      const char *name, size_t length) {
  if (is_x86(name, length)) {
    const char *list = features_of(name, length);
    return list ? missing_of(target, list) : "";
  }
  if (is_neon(target, name, length)) return NULL;
  if (length < 5 || memcmp(name, "llvm.", 5)) return "";
  size_t word = strcspn(name + 5, ".");
  for (size_t i = 0; i < sizeof other_machines / sizeof *other_machines; i++)
    if (strlen(other_machines[i]) == word &&
        !memcmp(other_machines[i], name + 5, word))
      return "";
  return NULL;
}
