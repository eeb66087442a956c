/* Kernels from MLIR text to code; see jit.h. */
#include "tests/kernels/jit.h"

#include <llvm-c/Core.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>
#include <mlir-c/RegisterEverything.h>
#include <mlir-c/Target/LLVMIR.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PIPELINE                              \
  "builtin.module(convert-vector-to-scf,"     \
  "convert-scf-to-cf,convert-vector-to-llvm," \
  "convert-to-llvm,reconcile-unrealized-casts)"
#define ENTRY "entry_of_" /* and the kernel's name */

struct jit {
  MlirDialectRegistry registry;
  MlirContext context;
  double mlir, llvm;
};

struct jit_code {
  LLVMOrcLLJITRef session;
  jit_kernel entry; /* of the first symbol */
};

/* What is to be compiled. */
typedef struct source {
  const char *text;
  const char *const *symbols; /* the kernels in it */
  unsigned count;
} source;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others use the machine */
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

_Noreturn static void give_up(const char *what, const char *why) {
  (void)fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(LLVMErrorRef error, const char *what) {
  if (error) give_up(what, LLVMGetErrorMessage(error));
}

unsigned jit_levels(const jit_level **out) {
  static jit_level levels[5];
  static char host[160];
  unsigned count = 0;
  levels[count++] = (jit_level){"portable", "x86-64", "", NULL};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    levels[count++] =
        (jit_level){"avx2 without f16c", "x86-64-v3", "avx2,fma", NULL};
    levels[count++] =
        (jit_level){"avx2", "x86-64-v3", "avx,avx2,fma,f16c", NULL};
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
    levels[count++] = (jit_level){
        "avx512", "x86-64-v4",
        "avx,avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl", NULL};
  nabla_features_format(nabla_features_host(), host, sizeof host);
  levels[count++] = (jit_level){"host", NULL, host, NULL};
  *out = levels;
  return count;
}

unsigned jit_levels_all(const jit_level **out) {
  static const jit_level levels[] = {
      {"portable", "x86-64", "", NULL},
      {"avx2 without f16c", "x86-64-v3", "avx2,fma", NULL},
      {"avx2", "x86-64-v3", "avx,avx2,fma,f16c", NULL},
      {"avx512", "x86-64-v4",
       "avx,avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl", NULL},
      {"zen4", "znver4",
       "avx,avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,"
       "avx512vnni,avx512bf16",
       NULL},
      {"amx", "sapphirerapids",
       "avx,avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,"
       "avx512vnni,avx512bf16,amx-tile,amx-bf16,amx-int8",
       NULL},
  };
  *out = levels;
  return sizeof levels / sizeof *levels;
}

jit *jit_create(void) {
  jit *self = calloc(1, sizeof *self);
  if (!self || LLVMInitializeNativeTarget() || LLVMInitializeNativeAsmPrinter())
    give_up("jit", "cannot start");
  self->registry = mlirDialectRegistryCreate();
  mlirRegisterAllDialects(self->registry);
  mlirRegisterAllPasses();
  self->context = mlirContextCreateWithRegistry(self->registry, false);
  mlirContextSetAllowUnregisteredDialects(self->context, true);
  mlirRegisterAllLLVMTranslations(self->context);
  return self;
}

void jit_destroy(jit *self) {
  if (!self) return;
  mlirContextDestroy(self->context);
  mlirDialectRegistryDestroy(self->registry);
  free(self);
}

void jit_times(const jit *self, double *mlir, double *llvm) {
  *mlir = self->mlir;
  *llvm = self->llvm;
}

static void show(MlirStringRef text, void *file) {
  (void)fwrite(text.data, 1, text.length, file);
}

int jit_keep_text(const char *text) {
  const char *path = getenv("NABLA_TEST_KERNEL_TEXT");
  if (!path) return 0;
  FILE *file = fopen(path, "a");
  if (!file || fputs(text, file) < 0 || fclose(file) != 0)
    give_up(path, "cannot be written");
  return 1;
}

/* Kernels are internal: entries that call make them visible. */
static MlirModule parse(jit *self, const source *from) {
  nabla_text all = {0};
  nabla_text_add(&all, "%s\n", from->text);
  for (unsigned i = 0; i < from->count; i++)
    nabla_text_add(&all,
                   "llvm.func @" ENTRY
                   "%s(%%a: !llvm.ptr, %%b: i64, %%e: i64) {\n"
                   "  llvm.call @%s(%%a, %%b, %%e) : (!llvm.ptr, i64, i64) -> "
                   "()\n  llvm.return\n}\n",
                   from->symbols[i], from->symbols[i]);
  if (all.failed) give_up("jit", "out of memory");
  (void)jit_keep_text(all.data);
  MlirModule module = mlirModuleCreateParse(
      self->context, mlirStringRefCreate(all.data, all.size));
  if (mlirModuleIsNull(module)) give_up("parse", all.data);
  nabla_text_deinit(&all);
  return module;
}

static void lower(jit *self, MlirModule module) {
  MlirPassManager passes = mlirPassManagerCreate(self->context);
  MlirOpPassManager top = mlirPassManagerGetAsOpPassManager(passes);
  MlirStringRef pipeline = mlirStringRefCreateFromCString(PIPELINE);
  if (mlirLogicalResultIsFailure(
          mlirParsePassPipeline(top, pipeline, show, stderr)))
    give_up("pipeline", PIPELINE);
  MlirOperation op = mlirModuleGetOperation(module);
  if (mlirLogicalResultIsFailure(mlirPassManagerRunOnOp(passes, op))) {
    mlirOperationPrint(op, show, stderr);
    give_up("passes", "failed");
  }
  mlirPassManagerDestroy(passes);
}

static LLVMTargetMachineRef target_of(const jit_level *level) {
  char *triple = level->triple ? LLVMCreateMessage(level->triple)
                               : LLVMGetDefaultTargetTriple();
  char *error = NULL;
  char *host_cpu = LLVMGetHostCPUName();
  char *host_features = LLVMGetHostCPUFeatures();
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, &error))
    give_up("target", error);
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
      target, triple, level->cpu ? level->cpu : host_cpu,
      level->cpu ? "" : host_features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
      LLVMCodeModelDefault);
  LLVMDisposeMessage(triple);
  LLVMDisposeMessage(host_cpu);
  LLVMDisposeMessage(host_features);
  return machine;
}

static LLVMMemoryBufferRef emit(jit *self, const jit_level *level,
                                const source *from, LLVMCodeGenFileType kind) {
  double begin = now();
  MlirModule module = parse(self, from);
  lower(self, module);
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef ir =
      mlirTranslateModuleToLLVMIR(mlirModuleGetOperation(module), context);
  if (!ir) give_up("translate", from->text);
  mlirModuleDestroy(module);
  self->mlir = now() - begin;
  LLVMTargetMachineRef machine = target_of(level);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  char *triple = LLVMGetTargetMachineTriple(machine), *error = NULL;
  LLVMSetModuleDataLayout(ir, layout);
  LLVMSetTarget(ir, triple);
  LLVMDisposeMessage(triple);
  LLVMDisposeTargetData(layout);
  begin = now();
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMPassBuilderOptionsSetLoopUnrolling(options, false);
  check(LLVMRunPasses(ir, "default<O2>", machine, options), "optimize");
  LLVMDisposePassBuilderOptions(options);
  LLVMMemoryBufferRef buffer;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, ir, kind, &error, &buffer))
    give_up("emit", error);
  self->llvm = now() - begin;
  LLVMDisposeModule(ir);
  LLVMContextDispose(context);
  LLVMDisposeTargetMachine(machine);
  return buffer;
}

static void define(LLVMOrcLLJITRef session, const char *name,
                   LLVMOrcExecutorAddress address) {
  LLVMJITSymbolFlags flags = {LLVMJITSymbolGenericFlagsExported, 0};
  LLVMOrcCSymbolMapPair pair = {LLVMOrcLLJITMangleAndIntern(session, name),
                                {address, flags}};
  check(LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(session),
                              LLVMOrcAbsoluteSymbols(&pair, 1)),
        name);
}

static jit_kernel find(const jit_code *code, const char *symbol) {
  char name[128];
  LLVMOrcExecutorAddress address = 0;
  (void)snprintf(name, sizeof name, ENTRY "%s", symbol);
  LLVMErrorRef error = LLVMOrcLLJITLookup(code->session, &address, name);
  if (error) LLVMConsumeError(error);
  return error ? NULL : (jit_kernel)(uintptr_t)address;
}

/* No other symbol than these three can be used: see docs on objects. */
jit_code *jit_compile_all(jit *self, const jit_level *level, const char *text,
                          const char *const *symbols, unsigned count) {
  const source from = {text, symbols, count};
  jit_code *code = calloc(1, sizeof *code);
  if (!code) give_up("jit", "out of memory");
  LLVMMemoryBufferRef object = emit(self, level, &from, LLVMObjectFile);
  check(LLVMOrcCreateLLJIT(&code->session, LLVMOrcCreateLLJITBuilder()),
        "session");
  define(code->session, "memcpy", (uintptr_t)memcpy);
  define(code->session, "memmove", (uintptr_t)memmove);
  define(code->session, "memset", (uintptr_t)memset);
  check(LLVMOrcLLJITAddObjectFile(
            code->session, LLVMOrcLLJITGetMainJITDylib(code->session), object),
        "object");
  code->entry = find(code, symbols[0]);
  if (!code->entry) give_up("not found", symbols[0]);
  return code;
}

jit_code *jit_compile(jit *self, const jit_level *level, const char *text,
                      const char *symbol) {
  return jit_compile_all(self, level, text, &symbol, 1);
}

jit_kernel jit_find(const jit_code *code, const char *symbol) {
  return find(code, symbol);
}

jit_kernel jit_entry(const jit_code *code) { return code->entry; }

void jit_release(jit_code *code) {
  if (!code) return;
  check(LLVMOrcDisposeLLJIT(code->session), "dispose");
  free(code);
}

char *jit_assembly(jit *self, const jit_level *level, const char *text,
                   const char *symbol) {
  const source from = {text, &symbol, 1};
  LLVMMemoryBufferRef buffer = emit(self, level, &from, LLVMAssemblyFile);
  char *result = strndup(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  if (!result) give_up("jit", "out of memory");
  LLVMDisposeMemoryBuffer(buffer);
  return result;
}

void jit_print_assembly(jit *self, const jit_level *level, const char *text,
                        const char *symbol) {
  char *assembly = jit_assembly(self, level, text, symbol);
  (void)fputs(assembly, stdout);
  free(assembly);
}
