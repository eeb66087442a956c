/* Code generation with LLVM's C API; see codegen.h. */
#include "lib/compiler/codegen.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <mlir-c/Target/LLVMIR.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/kernels/builder/text.h"
#include "nabla/services.h"

/* What is left to do for LLVM: kernels come as register tiles, so that of
 * default<O2> these passes matter, in a quarter of its time. InstCombine ends
 * the process when one round was not enough, unless told not to look. */
#define OPTIMISATIONS                                        \
  "always-inline,cgscc(inline,function-attrs),"              \
  "function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg," \
  "instcombine<no-verify-fixpoint>,"                         \
  "loop-mssa(loop-rotate,licm),simplifycfg,"                 \
  "loop-vectorize,loop-mssa(licm),early-cse,simplifycfg),"   \
  "globaldce"
#define ON_FUNCTION ((LLVMAttributeIndex)LLVMAttributeFunctionIndex)

double nabla_milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The first error that LLVM reported in a context. */
typedef struct error_text {
  int errors;
  char text[200];
} error_text;

static void handle(LLVMDiagnosticInfoRef diagnostic, void *self) {
  error_text *error = self;
  if (LLVMGetDiagInfoSeverity(diagnostic) != LLVMDSError) return;
  if (error->errors++) return;
  char *text = LLVMGetDiagInfoDescription(diagnostic);
  snprintf(error->text, sizeof error->text, "%s", text);
  LLVMDisposeMessage(text);
}

/* ---- what the module may hold ---- */

static int is_kept(const char *name) {
  return !strncmp(name, NABLA_ENTRY_PREFIX, strlen(NABLA_ENTRY_PREFIX)) ||
         !strcmp(name, NABLA_MANIFEST_SYMBOL);
}

static int is_provided(const char *name) {
  return !strcmp(name, "memcpy") || !strcmp(name, "memmove") ||
         !strcmp(name, "memset");
}

/* Whether numbers of tiles, the only i8 that intrinsics of AMX take, are those
 * of registers: LLVM does not look. */
static int has_tiles(LLVMValueRef function) {
  for (LLVMUseRef use = LLVMGetFirstUse(function); use;
       use = LLVMGetNextUse(use)) {
    LLVMValueRef call = LLVMGetUser(use);
    if (!LLVMIsACallInst(call)) return 0;
    for (unsigned i = 0; i < LLVMGetNumArgOperands(call); i++) {
      LLVMValueRef value = LLVMGetOperand(call, i);
      LLVMTypeRef type = LLVMTypeOf(value);
      if (LLVMGetTypeKind(type) != LLVMIntegerTypeKind ||
          LLVMGetIntTypeWidth(type) != 8)
        continue;
      if (!LLVMIsAConstantInt(value) ||
          LLVMConstIntGetZExtValue(value) >= NABLA_INTRINSIC_TILES)
        return 0;
    }
  }
  return 1;
}

static nabla_status check_tiles(LLVMValueRef function, const char *name,
                                size_t length, nabla_diag *diag) {
  if (!nabla_intrinsic_has_tiles(name, length) || has_tiles(function))
    return NABLA_OK;
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "'%s' of a tile that is not 0 to 7", name);
  nabla_diag_set_next(diag, "name one of the eight registers");
  return status;
}

/* Functions that are only declared: intrinsics of this target. */
static nabla_status check_declaration(const nabla_machine *target,
                                      LLVMValueRef function, nabla_diag *diag) {
  size_t length;
  const char *name = LLVMGetValueName2(function, &length);
  if (!LLVMGetIntrinsicID(function)) {
    if (is_provided(name)) return NABLA_OK;
    return nabla_fail(diag, NABLA_CORRUPT,
                      "the program calls '%s', which it does not define", name);
  }
  const char *feature = nabla_intrinsic_objection(target, name, length);
  if (!feature) return check_tiles(function, name, length, diag);
  nabla_status status;
  if (*feature)
    status = nabla_fail(diag, NABLA_UNSUPPORTED,
                        "'%s' needs %s, which target '%s' lacks", name, feature,
                        target->text);
  else
    status = nabla_fail(diag, NABLA_UNSUPPORTED,
                        "'%s' cannot be compiled for target '%s'", name,
                        target->text);
  nabla_diag_set_next(diag,
                      "name a target that has it, or use other operations");
  return status;
}

/* What the target is, is said once, by the target: a program that asks for
 * more, for one of its functions, would not run. Nothing unwinds. Names of
 * functions of the program must not be those of the C library, which LLVM takes
 * for granted. */
static void prepare_definition(LLVMContextRef context, LLVMValueRef function) {
  static const char *const dropped[] = {"target-cpu", "target-features",
                                        "tune-cpu"};
  for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
    LLVMRemoveStringAttributeAtIndex(function, ON_FUNCTION, dropped[i],
                                     (unsigned)strlen(dropped[i]));
  LLVMAddAttributeAtIndex(
      function, ON_FUNCTION,
      LLVMCreateEnumAttribute(
          context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
  size_t length;
  const char *name = LLVMGetValueName2(function, &length);
  if (is_kept(name)) return;
  LLVMSetLinkage(function, LLVMInternalLinkage);
  if (memchr(name, '.', length)) return;
  nabla_text renamed = {0};
  nabla_text_add(&renamed, "%s.nabla", name);
  if (!renamed.failed) LLVMSetValueName2(function, renamed.data, renamed.size);
  nabla_text_deinit(&renamed);
}

static nabla_status prepare(LLVMModuleRef module, const nabla_machine *target,
                            nabla_diag *diag) {
  LLVMContextRef context = LLVMGetModuleContext(module);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(target->machine);
  LLVMSetModuleDataLayout(module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(module, target->triple);
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f;
       f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f))
      NABLA_TRY(check_declaration(target, f, diag));
    else
      prepare_definition(context, f);
  }
  for (LLVMValueRef g = LLVMGetFirstGlobal(module); g;
       g = LLVMGetNextGlobal(g)) {
    size_t length;
    const char *name = LLVMGetValueName2(g, &length);
    if (LLVMIsDeclaration(g))
      return nabla_fail(diag, NABLA_CORRUPT,
                        "the program uses '%s', which it does not define",
                        name);
    if (!is_kept(name)) LLVMSetLinkage(g, LLVMInternalLinkage);
    /* several objects may be in one program: nobody looks for it there */
    if (!strcmp(name, NABLA_MANIFEST_SYMBOL))
      LLVMSetLinkage(g, LLVMWeakAnyLinkage);
  }
  char *error = NULL;
  nabla_status status = NABLA_OK;
  if (LLVMVerifyModule(module, LLVMReturnStatusAction, &error))
    status =
        nabla_fail(diag, NABLA_CORRUPT, "LLVM refuses the program: %s", error);
  LLVMDisposeMessage(error);
  return status;
}

/* What LLVM may use anywhere, and what the module asks for. */
static void collect_features(LLVMModuleRef module, const nabla_machine *target,
                             nabla_x86_features *out) {
  *out = (nabla_x86_features){{0}};
  for (size_t i = 0; i < NABLA_X86_FEATURE_COUNT; i++)
    out->has[i] = target->set.has[i] && !nabla_x86_feature_is_asked(i);
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f;
       f = LLVMGetNextFunction(f)) {
    size_t length;
    const char *name = LLVMGetValueName2(f, &length);
    if (LLVMGetIntrinsicID(f)) nabla_intrinsic_add(name, length, out);
  }
}

/* ---- the path ---- */

static nabla_status optimise(LLVMModuleRef module, const nabla_machine *target,
                             nabla_diag *diag) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error =
      LLVMRunPasses(module, OPTIMISATIONS, target->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return NABLA_OK;
  char *text = LLVMGetErrorMessage(error);
  nabla_status status =
      nabla_fail(diag, NABLA_CORRUPT, "LLVM cannot optimise: %s", text);
  LLVMDisposeErrorMessage(text);
  return status;
}

static nabla_status emit(LLVMModuleRef module, const nabla_machine *target,
                         nabla_emission emission, LLVMMemoryBufferRef *out,
                         nabla_diag *diag) {
  if (emission == NABLA_EMIT_LLVM) {
    char *text = LLVMPrintModuleToString(module);
    *out = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "");
    LLVMDisposeMessage(text);
    return NABLA_OK;
  }
  char *error = NULL;
  LLVMCodeGenFileType type =
      emission == NABLA_EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile;
  if (!LLVMTargetMachineEmitToMemoryBuffer(target->machine, module, type,
                                           &error, out))
    return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_CORRUPT, "LLVM cannot emit: %s", error);
  LLVMDisposeMessage(error);
  return status;
}

static nabla_status generate(LLVMModuleRef module, const nabla_machine *target,
                             nabla_emission emission, LLVMMemoryBufferRef *out,
                             nabla_x86_features *needed,
                             nabla_compile_report *report, nabla_diag *diag) {
  NABLA_TRY(prepare(module, target, diag));
  if (needed) collect_features(module, target, needed);
  double start = nabla_milliseconds();
  NABLA_TRY(optimise(module, target, diag));
  double optimised = nabla_milliseconds();
  report->optimize_ms = optimised - start;
  NABLA_TRY(emit(module, target, emission, out, diag));
  report->codegen_ms = nabla_milliseconds() - optimised;
  return NABLA_OK;
}

nabla_status nabla_codegen(MlirOperation module, const nabla_machine *target,
                           nabla_emission emission, LLVMMemoryBufferRef *out,
                           nabla_x86_features *needed,
                           nabla_compile_report *report, nabla_diag *diag) {
  error_text error = {0, ""};
  double start = nabla_milliseconds();
  LLVMContextRef context = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(context, handle, &error);
  LLVMModuleRef llvm = mlirTranslateModuleToLLVMIR(module, context);
  report->translate_ms = nabla_milliseconds() - start;
  LLVMMemoryBufferRef buffer = NULL;
  nabla_status status;
  if (llvm)
    status = generate(llvm, target, emission, &buffer, needed, report, diag);
  else
    status = nabla_fail(diag, NABLA_CORRUPT,
                        "the program cannot be translated to LLVM IR");
  if (!status && error.errors)
    status = nabla_fail(diag, NABLA_CORRUPT, "LLVM refuses it: %s", error.text);
  if (!status && emission == NABLA_EMIT_OBJ)
    status = nabla_object_check(LLVMGetBufferStart(buffer),
                                LLVMGetBufferSize(buffer), diag);
  if (llvm) LLVMDisposeModule(llvm);
  LLVMContextDispose(context);
  if (status && buffer) LLVMDisposeMemoryBuffer(buffer);
  if (!status) *out = buffer;
  return status;
}
