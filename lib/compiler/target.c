/* Targets: names of CPUs and features, checked before LLVM sees them, because
 * LLVM ignores what it does not know and aborts on what cannot be. */
#include "lib/compiler/target.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "transforms/text.h"

#define COUNT NABLA_X86_FEATURE_COUNT

#define FEATURE(name, implied) {name, implied},
static const struct {
  const char *name, *implied;
} rows[COUNT] = {
#include "lib/compiler/x86_features.def"
};
#undef FEATURE

size_t nabla_x86_feature_find(const char *name, size_t length) {
  for (size_t i = 0; i < COUNT; i++)
    if (strlen(rows[i].name) == length && !memcmp(rows[i].name, name, length))
      return i;
  return COUNT;
}

const char *nabla_x86_feature_name(size_t index) { return rows[index].name; }

/* 1 when row `feature` implies row `other`, directly. */
static int implies(size_t feature, size_t other) {
  const char *list = rows[feature].implied;
  while (*list) {
    size_t length = strcspn(list, ",");
    if (nabla_x86_feature_find(list, length) == other) return 1;
    list += length + (list[length] == ',');
  }
  return 0;
}

/* A feature brings what it implies, and goes with what it needs: rows stand
 * below everything that they imply. */
static void turn_on(uint8_t *has, size_t feature) {
  has[feature] = 1;
  for (size_t i = feature; i-- > 0;)
    for (size_t k = i + 1; k <= feature && !has[i]; k++)
      if (has[k] && implies(k, i)) has[i] = 1;
}

static void turn_off(uint8_t *has, size_t feature) {
  has[feature] = 0;
  for (size_t i = feature + 1; i < COUNT; i++)
    for (size_t k = feature; k < i && has[i]; k++)
      if (!has[k] && implies(i, k)) has[i] = 0;
}

static void visit(void *self, const char *name, intptr_t length) {
  size_t feature = nabla_x86_feature_find(name, (size_t)length);
  if (feature < COUNT) turn_on(self, feature);
}

static void initialize(void) {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
  LLVMInitializeNativeAsmParser();
}

/* "+a,-b" of this machine. */
static void read_host(uint8_t *has, const char *list) {
  while (*list) {
    size_t length = strcspn(list, ",");
    if (*list == '+' && length > 1) {
      size_t feature = nabla_x86_feature_find(list + 1, length - 1);
      if (feature < COUNT) has[feature] = 1;
    }
    list += length + (list[length] == ',');
  }
}

/* Bits that kernel generators know, of the features that are there. */
static nabla_features kernel_features(const uint8_t *has) {
  nabla_features features = 0;
  for (size_t i = 0; i < COUNT; i++)
    if (has[i]) features |= nabla_features_parse(rows[i].name);
  return features;
}

static nabla_status fail_cpu(const char *cpu, size_t length, nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown CPU '%.*s'",
                 (int)(length & 127), cpu);
  nabla_diag_set_next(diag,
                      "LLVM's names are legal: native, x86-64-v3, x86-64-v4, "
                      "skylake-avx512, znver4, ...");
  return status;
}

/* Fills what is known of the CPU in `target->text`. */
static nabla_status read_cpu(nabla_target *target, const uint8_t *host,
                             const char *host_list, nabla_diag *diag) {
  size_t length = strcspn(target->text, ",");
  if (length == 6 && !memcmp(target->text, "native", 6)) {
    char *name = LLVMGetHostCPUName();
    target->cpu = strdup(name);
    LLVMDisposeMessage(name);
    target->features = strdup(host_list);
    memcpy(target->has, host, COUNT);
  } else {
    target->cpu = strndup(target->text, length);
    target->features = strdup("+64bit,+sse2");
    /* names with '_' are those of __builtin_cpu_is: not all are CPUs of LLVM */
    if (target->cpu && (!*target->cpu || strchr(target->cpu, '_') ||
                        !nablaCpuFeatures(target->cpu, visit, target->has)))
      return fail_cpu(target->cpu, length, diag);
    /* not in every list, though all 64-bit CPUs have them */
    turn_on(target->has, nabla_x86_feature_find("64bit", 5));
    if (target->cpu && target->has[nabla_x86_feature_find("sse", 3)])
      turn_on(target->has, nabla_x86_feature_find("sse2", 4));
  }
  if (!target->cpu || !target->features)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  return NABLA_OK;
}

/* Applies ",+FEATURE,-FEATURE" behind the CPU. */
static nabla_status read_features(nabla_target *target, nabla_diag *diag) {
  const char *list = target->text + strcspn(target->text, ",");
  nabla_text all = {0};
  nabla_text_add(&all, "%s", target->features);
  while (*list) {
    list++;
    size_t length = strcspn(list, ",");
    int off = *list == '-', sign = off || *list == '+';
    size_t feature =
        length > (size_t)sign
            ? nabla_x86_feature_find(list + sign, length - (size_t)sign)
            : COUNT;
    if (feature == COUNT) {
      nabla_text_deinit(&all);
      nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown feature '%.*s'",
                     (int)(length & 127), list);
      nabla_diag_set_next(diag,
                          "LLVM's names are legal: +avx2, +fma, -avx512f, ...");
      return status;
    }
    if (off)
      turn_off(target->has, feature);
    else
      turn_on(target->has, feature);
    nabla_text_add(&all, ",%c%s", off ? '-' : '+', rows[feature].name);
    list += length;
  }
  free(target->features);
  target->features = all.data;
  if (all.failed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  return NABLA_OK;
}

/* Floats are passed in SSE registers: LLVM aborts where there are none. */
static nabla_status check_baseline(const nabla_target *target,
                                   nabla_diag *diag) {
  static const char *const needed[] = {"64bit", "sse2"};
  for (size_t i = 0; i < 2; i++) {
    if (target->has[nabla_x86_feature_find(needed[i], strlen(needed[i]))])
      continue;
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "target '%s' lacks %s, without which no code is made",
                   target->text, needed[i]);
    nabla_diag_set_next(diag, "name a 64-bit CPU: x86-64 or newer");
    return status;
  }
  return NABLA_OK;
}

static nabla_status make_machine(nabla_target *target, nabla_diag *diag) {
  LLVMTargetRef llvm;
  char *error = NULL, *triple = LLVMGetDefaultTargetTriple();
  target->triple = strdup(triple);
  LLVMDisposeMessage(triple);
  if (!target->triple)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  if (LLVMGetTargetFromTriple(target->triple, &llvm, &error)) {
    nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED, "LLVM cannot make code for %s: %s",
                   target->triple, error ? error : "no reason given");
    LLVMDisposeMessage(error);
    return status;
  }
  target->machine = LLVMCreateTargetMachine(
      llvm, target->triple, target->cpu, target->features,
      LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
  if (!target->machine)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "LLVM cannot make code for %s",
                      target->triple);
  return NABLA_OK;
}

static nabla_status fill(nabla_target *target, nabla_diag *diag) {
  uint8_t host[COUNT] = {0};
  char *list = LLVMGetHostCPUFeatures();
  read_host(host, list);
  nabla_status status = read_cpu(target, host, list, diag);
  LLVMDisposeMessage(list);
  NABLA_TRY(status);
  NABLA_TRY(read_features(target, diag));
#if defined(__x86_64__)
  NABLA_TRY(check_baseline(target, diag));
#endif
  target->kernels = kernel_features(target->has);
  for (size_t i = 0; i < COUNT && !target->missing; i++)
    if (target->has[i] && !host[i] && strcmp(rows[i].name, "x87"))
      target->missing = rows[i].name;
  return make_machine(target, diag);
}

nabla_status nabla_machine_create(const char *text, nabla_target **out,
                                  nabla_diag *diag) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize);
  nabla_target *target = calloc(1, sizeof *target);
  if (target) target->text = strdup(text && *text ? text : "native");
  if (!target || !target->text) {
    nabla_machine_destroy(target);
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  }
  nabla_status status = fill(target, diag);
  if (status)
    nabla_machine_destroy(target);
  else
    *out = target;
  return status;
}

void nabla_machine_destroy(nabla_target *target) {
  if (!target) return;
  if (target->machine) LLVMDisposeTargetMachine(target->machine);
  free(target->text);
  free(target->cpu);
  free(target->triple);
  free(target->features);
  free(target);
}
