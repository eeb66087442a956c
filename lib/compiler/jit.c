/* One LLJIT for each executable: half a millisecond each, and nothing that
 * executables share. */
#include "lib/compiler/jit.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "nabla/services.h"

static nabla_status fail_llvm(LLVMErrorRef error, const char *what,
                              nabla_diag *diag) {
  char *text = LLVMGetErrorMessage(error);
  nabla_status status = nabla_fail(diag, NABLA_CORRUPT, "%s: %s", what, text);
  LLVMDisposeErrorMessage(text);
  return status;
}

static void destroy(void *self) {
  LLVMErrorRef error = LLVMOrcDisposeLLJIT(self);
  if (error) LLVMConsumeError(error);
}

static uint64_t find(void *self, const char *symbol) {
  LLVMOrcExecutorAddress address = 0;
  LLVMErrorRef error = LLVMOrcLLJITLookup(self, &address, symbol);
  if (!error) return address;
  LLVMConsumeError(error);
  return 0;
}

static nabla_entry_function lookup_entry(void *self, const char *symbol) {
  return (nabla_entry_function)(uintptr_t)find(self, symbol);
}

/* Symbols come from here and nowhere else: the process is not searched. */
static LLVMErrorRef define_provided(LLVMOrcLLJITRef jit) {
  const struct {
    const char *name;
    uintptr_t address;
  } provided[] = {
      {"memcpy", (uintptr_t)&memcpy},
      {"memmove", (uintptr_t)&memmove},
      {"memset", (uintptr_t)&memset},
  };
  enum { COUNT = sizeof provided / sizeof *provided };
  LLVMOrcCSymbolMapPair pairs[COUNT];
  for (size_t i = 0; i < COUNT; i++)
    pairs[i] = (LLVMOrcCSymbolMapPair){
        LLVMOrcLLJITMangleAndIntern(jit, provided[i].name),
        {provided[i].address,
         {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable,
          0}}};
  return LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit),
                               LLVMOrcAbsoluteSymbols(pairs, COUNT));
}

/* Without a machine LLJIT asks the CPU what it is, which takes longer than all
 * the rest. Objects are linked the same for every CPU. */
static LLVMErrorRef create(const nabla_machine *target, LLVMOrcLLJITRef *out) {
  LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
      LLVMGetTargetMachineTarget(target->machine), target->triple, "", "",
      LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
      builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
  return LLVMOrcCreateLLJIT(out, builder);
}

nabla_status nabla_jit_link(const nabla_machine *target, const void *object,
                            size_t size, nabla_code *out, nabla_diag *diag) {
  LLVMOrcLLJITRef jit;
  LLVMErrorRef error = create(target, &jit);
  if (error) return fail_llvm(error, "no linker", diag);
  nabla_status status = NABLA_OK;
  error = define_provided(jit);
  if (!error)
    error = LLVMOrcLLJITAddObjectFile(
        jit, LLVMOrcLLJITGetMainJITDylib(jit),
        LLVMCreateMemoryBufferWithMemoryRangeCopy(object, size, "nabla"));
  if (error) status = fail_llvm(error, "the object cannot be linked", diag);
  const char *manifest = NULL;
  if (!status) {
    manifest = (const char *)(uintptr_t)find(jit, NABLA_MANIFEST_SYMBOL);
    if (!manifest)
      status = nabla_fail(diag, NABLA_CORRUPT,
                          "the object does not link, or has no manifest");
  }
  if (status) {
    destroy(jit);
    return status;
  }
  *out = (nabla_code){jit, manifest, lookup_entry, destroy,
                      XXH3_64bits(object, size)};
  return NABLA_OK;
}
