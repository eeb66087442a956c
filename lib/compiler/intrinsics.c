/* Which intrinsics a target can do: LLVM ends the process when it meets one
 * that it cannot select, so they are looked at before. */
#include <string.h>

#include "lib/compiler/codegen.h"

#define X86 "llvm.x86."

/* Sorted, so that of several that match the last is the longest. */
#define INTRINSIC(prefix, features) {prefix, features},
static const struct {
  const char *prefix, *features;
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

/* `row` without a '$' at its end begins `name`; with it, it is `name`. */
static int matches(const char *row, const char *name, size_t length) {
  size_t size = strlen(row);
  int whole = size && row[size - 1] == '$';
  size -= (size_t)whole;
  return whole ? size == length && !memcmp(row, name, size)
               : size <= length && !memcmp(row, name, size);
}

static const char *features_of(const char *name, size_t length) {
  const char *found = "?";
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (matches(rows[i].prefix, name, length)) found = rows[i].features;
  return found;
}

/* The first feature of "a+b" that is missing, as a name of x86_features.def; or
 * NULL. */
static const char *missing_of(const nabla_machine *target, const char *list,
                              size_t length) {
  for (size_t at = 0; at < length;) {
    size_t name = strcspn(list + at, "+|");
    size_t feature = nabla_x86_feature_find(list + at, name);
    if (feature == NABLA_X86_FEATURE_COUNT) return "";
    if (!target->set.has[feature]) return nabla_x86_feature_name(feature);
    if (nabla_x86_feature_uses_tiles(feature) && !target->missing &&
        !target->runs_elsewhere && !nabla_x86_tiles_allowed())
      return nabla_x86_feature_name(feature);
    at += name + 1;
  }
  return NULL;
}

/* The first alternative of "a+b|c" that the target has, and its length; or NULL
 * and, in `out_missing`, what the first one lacks. */
static const char *alternative_of(const nabla_machine *target, const char *list,
                                  size_t *out_length,
                                  const char **out_missing) {
  *out_missing = NULL;
  while (*list) {
    *out_length = strcspn(list, "|");
    const char *missing = missing_of(target, list, *out_length);
    if (!missing) return list;
    if (!*out_missing) *out_missing = missing;
    list += *out_length + (list[*out_length] == '|');
  }
  return NULL;
}

static int is_x86(const char *name, size_t length) {
  return length >= strlen(X86) && !memcmp(name, X86, strlen(X86));
}

int nabla_intrinsic_has_tiles(const char *name, size_t length) {
  size_t at = strlen(X86);
  return is_x86(name, length) && length > at && name[at] == 't';
}

void nabla_intrinsic_add(const nabla_machine *target, const char *name,
                         size_t length, nabla_x86_features *needed) {
  size_t size = 0;
  const char *missing;
  if (!is_x86(name, length)) return;
  const char *list = alternative_of(
      target, features_of(name + strlen(X86), length - strlen(X86)), &size,
      &missing);
  for (size_t at = 0; list && at < size;) {
    const size_t word = strcspn(list + at, "+|");
    const size_t feature = nabla_x86_feature_find(list + at, word);
    if (feature < NABLA_X86_FEATURE_COUNT)
      nabla_x86_feature_add(needed, feature);
    at += word + 1;
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
    size_t size;
    const char *missing;
    (void)alternative_of(target,
                         features_of(name + strlen(X86), length - strlen(X86)),
                         &size, &missing);
    return missing;
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
