/* Texts of --target: names of CPUs and features, checked before LLVM sees them,
 * because LLVM ignores what it does not know and aborts on what cannot be. */
#include "lib/compiler/target.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm/Config/Targets.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "lib/base/isa.h"
#include "lib/kernels/builder/text.h"

#define COUNT NABLA_X86_FEATURE_COUNT

static void visit(void *self, const char *name, intptr_t length) {
  size_t feature = nabla_x86_feature_find(name, (size_t)length);
  if (feature < COUNT) nabla_x86_feature_add(self, feature);
}

static void initialize(void) {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
  LLVMInitializeNativeAsmParser();
#if LLVM_HAS_AARCH64_TARGET
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  LLVMInitializeAArch64AsmParser();
#endif
}

/* ---- other kinds of machines -------------------------------------------- */

/* Each with the least that all of its kind have. */
typedef struct machine_row {
  const char *name, *triple, *cpu;
  int is_there; /* LLVM was built with it */
} machine_row;

#ifndef LLVM_HAS_AARCH64_TARGET
#define LLVM_HAS_AARCH64_TARGET 0
#endif

static const machine_row machines[] = {
    {"aarch64", "aarch64-unknown-linux-gnu", "generic",
     LLVM_HAS_AARCH64_TARGET},
};
#define MACHINES (sizeof machines / sizeof *machines)

/* The machine that `text` begins with, followed by nothing or features. */
static const machine_row *find_machine(const char *text) {
  size_t length = strcspn(text, ",");
  for (size_t i = 0; i < MACHINES; i++)
    if (strlen(machines[i].name) == length &&
        !memcmp(machines[i].name, text, length))
      return &machines[i];
  return NULL;
}

static nabla_status fill_machine(nabla_machine *target, const machine_row *is,
                                 nabla_diag *diag) {
  if (target->spelled[strlen(is->name)]) {
    nabla_status status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "'%.80s': features are chosen for x86 only", target->spelled);
    nabla_diag_set_next(diag, "say '%s': what all of them have", is->name);
    return status;
  }
  if (!is->is_there)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "LLVM was built without code for %s", is->name);
  target->cpu = strdup(is->cpu);
  target->features = strdup("");
  target->triple = strdup(is->triple);
  if (!target->cpu || !target->features || !target->triple)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  return NABLA_OK;
}

int nabla_machine_is(const nabla_machine *target, const char *machine) {
  size_t length = strcspn(target->triple, "-");
  return strlen(machine) == length && !memcmp(target->triple, machine, length);
}

/* ---- CPUs and features of this one -------------------------------------- */

/* "+a,-b" of this machine. */
static void read_host(nabla_x86_features *host, const char *list) {
  while (*list) {
    size_t length = strcspn(list, ",");
    if (*list == '+' && length > 1) {
      size_t feature = nabla_x86_feature_find(list + 1, length - 1);
      if (feature < COUNT) host->has[feature] = 1;
    }
    list += length + (list[length] == ',');
  }
}

static nabla_status fail_cpu(const char *cpu, size_t length, nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown CPU '%.*s'",
                 (int)(length & 127), cpu);
  nabla_diag_set_next(diag,
                      "LLVM's names are legal: native, x86-64-v3, x86-64-v4, "
                      "skylake-avx512, znver4, ...; and no-amx, aarch64");
  return status;
}

/* Fills what is known of the CPU in `target->spelled`. */
static nabla_status read_cpu(nabla_machine *target,
                             const nabla_x86_features *host,
                             const nabla_host_cpu *here, nabla_diag *diag) {
  size_t length = strcspn(target->spelled, ",");
  if (length == 6 && !memcmp(target->spelled, "native", 6)) {
    target->cpu = strdup(here->name);
    target->features = strdup(here->features);
    target->set = *host;
  } else {
    target->cpu = strndup(target->spelled, length);
    target->features = strdup("+64bit,+sse2");
    /* names with '_' are those of __builtin_cpu_is: not all are CPUs of LLVM */
    if (target->cpu && (!*target->cpu || strchr(target->cpu, '_') ||
                        !nablaCpuFeatures(target->cpu, visit, &target->set)))
      return fail_cpu(target->cpu, length, diag);
    /* not in every list, though all 64-bit CPUs have them */
    nabla_x86_feature_add(&target->set, nabla_x86_feature_find("64bit", 5));
    if (target->cpu && target->set.has[nabla_x86_feature_find("sse", 3)])
      nabla_x86_feature_add(&target->set, nabla_x86_feature_find("sse2", 4));
  }
  if (!target->cpu || !target->features)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  return NABLA_OK;
}

/* Applies ",+FEATURE,-FEATURE" behind the CPU. */
static nabla_status read_features(nabla_machine *target, nabla_diag *diag) {
  const char *list = target->spelled + strcspn(target->spelled, ",");
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
      nabla_x86_feature_remove(&target->set, feature);
    else
      nabla_x86_feature_add(&target->set, feature);
    nabla_text_add(&all, ",%c%s", off ? '-' : '+',
                   nabla_x86_feature_name(feature));
    list += length;
  }
  free(target->features);
  target->features = all.data;
  if (all.failed)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  return NABLA_OK;
}

/* Floats are passed in SSE registers: LLVM aborts where there are none. */
static nabla_status check_baseline(const nabla_machine *target,
                                   nabla_diag *diag) {
  static const char *const needed[] = {"64bit", "sse2"};
  for (size_t i = 0; i < 2; i++) {
    if (target->set.has[nabla_x86_feature_find(needed[i], strlen(needed[i]))])
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

static nabla_status make_machine(nabla_machine *target, nabla_diag *diag) {
  LLVMTargetRef llvm;
  char *error = NULL;
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

static nabla_status fill_cpu(nabla_machine *target, const nabla_host_cpu *here,
                             nabla_diag *diag) {
  nabla_x86_features host = {{0}};
  read_host(&host, here->features);
  NABLA_TRY(read_cpu(target, &host, here, diag));
  NABLA_TRY(read_features(target, diag));
#if defined(__x86_64__)
  NABLA_TRY(check_baseline(target, diag));
#endif
  for (size_t i = 0; i < COUNT && !target->missing; i++)
    if (target->set.has[i] && !host.has[i] &&
        strcmp(nabla_x86_feature_name(i), "x87"))
      target->missing = nabla_x86_feature_name(i);
  return NABLA_OK;
}

/* The triple of this machine, and whether the target is another one. */
static nabla_status read_triple(nabla_machine *target, nabla_diag *diag) {
  char *triple = LLVMGetDefaultTargetTriple();
  if (!target->triple)
    target->triple = strdup(triple);
  else
    target->is_foreign = strcspn(triple, "-") != strcspn(target->triple, "-") ||
                         strncmp(triple, target->triple, strcspn(triple, "-"));
  LLVMDisposeMessage(triple);
  return target->triple
             ? NABLA_OK
             : nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
}

nabla_features nabla_machine_kernels(const nabla_machine *target,
                                     int with_tiles) {
  const nabla_features tiles = NABLA_FEATURES_OF_TILES;
  const nabla_features all = target->kernels;
  if (!(all & tiles)) return all;
  if (!with_tiles) return all & ~tiles;
  /* what cannot run here anyway asks where it runs */
  if (target->missing || target->is_foreign || target->runs_elsewhere)
    return all;
  return nabla_x86_tiles_allowed() ? all : all & ~tiles;
}

/* "native", or nothing, is what NABLA_ISA names; "no-amx" is the machine
 * without what uses tiles. */
static nabla_status spell(nabla_machine *target, nabla_diag *diag) {
  const char *text = target->text;
  nabla_isa isa = NABLA_ISA_BEST;
  if (!strcmp(text, "native")) {
    NABLA_TRY(nabla_isa_or_environment(NABLA_ISA_BEST, &isa, diag));
    if (!nabla_isa_available(isa))
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "the environment variable NABLA_ISA: this CPU cannot "
                        "run %s code",
                        nabla_isa_name(isa));
    text = nabla_isa_target(isa);
  }
  const char *no_amx = nabla_isa_target(NABLA_ISA_NO_AMX);
  const size_t length = strlen(no_amx);
  const bool without =
      !strncmp(text, no_amx, length) && (!text[length] || text[length] == ',');
  nabla_text spelled = {0};
#if defined(__x86_64__)
  if (without) nabla_text_add(&spelled, "native,-amx-tile");
#else
  if (without) nabla_text_add(&spelled, "native");
#endif
  nabla_text_add(&spelled, "%s", text + (without ? length : 0));
  target->spelled = spelled.data;
  return spelled.failed
             ? nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target")
             : NABLA_OK;
}

static nabla_status fill(nabla_machine *target, const nabla_host_cpu *here,
                         nabla_diag *diag) {
  NABLA_TRY(spell(target, diag));
  const machine_row *other = find_machine(target->spelled);
  if (other) {
    NABLA_TRY(fill_machine(target, other, diag));
  } else {
    NABLA_TRY(fill_cpu(target, here, diag));
  }
  NABLA_TRY(read_triple(target, diag));
  target->kernels =
      nabla_features_of(&target->set) | nabla_features_of_cpu(target->cpu);
  if (nabla_machine_is(target, "aarch64"))
    target->kernels = nabla_features_parse("neon");
  return make_machine(target, diag);
}

nabla_status nabla_machine_create_on(const nabla_host_cpu *here,
                                     const char *text, nabla_machine **out,
                                     nabla_diag *diag) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize);
  nabla_machine *target = calloc(1, sizeof *target);
  if (target) target->text = strdup(text && *text ? text : "native");
  if (!target || !target->text) {
    nabla_machine_destroy(target);
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a target");
  }
  nabla_status status = fill(target, here, diag);
  if (status)
    nabla_machine_destroy(target);
  else
    *out = target;
  return status;
}

nabla_status nabla_machine_create(const char *text, nabla_machine **out,
                                  nabla_diag *diag) {
  char *name = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  const nabla_host_cpu here = {name, features};
  const nabla_status status = nabla_machine_create_on(&here, text, out, diag);
  LLVMDisposeMessage(name);
  LLVMDisposeMessage(features);
  return status;
}

void nabla_machine_destroy(nabla_machine *target) {
  if (!target) return;
  if (target->machine) LLVMDisposeTargetMachine(target->machine);
  free(target->text);
  free(target->spelled);
  free(target->cpu);
  free(target->triple);
  free(target->features);
  free(target);
}
