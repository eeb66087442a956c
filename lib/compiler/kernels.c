/* Kernels alone, from a spec to an object; see kernels.h. */
#include "lib/compiler/kernels.h"

#include <string.h>

#include "lib/compiler/codegen.h"
#include "lib/kernels/builder/text.h"
#include "nabla/services.h"
#include "transforms/pipelines.h"

int nabla_kernel_has_part(const nabla_fused_spec *spec, uint32_t part) {
  if (part == 1) return nabla_fused_has_prepare(spec);
  if (part == 2) return nabla_fused_has_prepack(spec);
  return 1;
}

/* Kernels are written for one module: others see them from here on. */
static void reveal(char *text) {
  static const char hidden[] = "llvm.func internal @" NABLA_ENTRY_PREFIX;
  const size_t before = strlen("llvm.func ");
  for (char *at = strstr(text, hidden); at; at = strstr(at + before, hidden))
    memcpy(at + before, "hidden  ", strlen("internal"));
}

/* All kernels, and nothing that other objects could have too. */
static void write(const nabla_kernel_object *kernels, const char *prefix,
                  nabla_text *text) {
  nabla_text name = {0};
  for (uint32_t i = 0; i < kernels->count && !text->failed; i++) {
    name.size = 0;
    nabla_text_add(&name, NABLA_ENTRY_PREFIX "%s%u", prefix, i);
    if (name.failed)
      text->failed = 1;
    else
      nabla_fused_emit(&kernels->specs[i], name.data, text);
  }
  nabla_text_deinit(&name);
  if (!text->failed) reveal(text->data);
  /* the linker of this process asks for a manifest; there is nothing in it */
  if (!*prefix)
    nabla_text_add(text,
                   "llvm.mlir.global external hidden constant "
                   "@" NABLA_MANIFEST_SYMBOL "(\"\\00\")\n");
}

static nabla_status run_passes(nabla_context *context, MlirModule module,
                               nabla_diag *diag) {
  nabla_text text = {0};
  nabla_text_add(&text, "builtin.module(");
  nabla_status status = nabla_pipeline_write(
      NABLA_PIPELINE_kernels, nabla_pipeline_defaults, &text, diag);
  nabla_text_add(&text, ")");
  if (!status && text.failed)
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a pipeline");
  if (!status) status = nabla_context_run(context, module, text.data, diag);
  nabla_text_deinit(&text);
  return status;
}

static nabla_status compile(nabla_context *context, const nabla_machine *target,
                            const nabla_text *text, LLVMMemoryBufferRef *out,
                            nabla_diag *diag) {
  MlirModule module = {NULL};
  nabla_compile_report report;
  NABLA_TRY(nabla_context_begin(context, "kernels", diag));
  nabla_status status =
      nabla_context_parse(context, text->data, text->size, &module, diag);
  if (!status) status = run_passes(context, module, diag);
  if (!status)
    status = nabla_codegen(mlirModuleGetOperation(module), target,
                           NABLA_EMIT_OBJ, out, NULL, &report, diag);
  if (!mlirModuleIsNull(module)) mlirModuleDestroy(module);
  return status;
}

nabla_status nabla_kernels_compile(nabla_context *context,
                                   const nabla_machine *target,
                                   const nabla_fused_spec *spec,
                                   const char *prefix, nabla_kernel_object *out,
                                   nabla_diag *diag) {
  nabla_fused_spec wanted = *spec;
  wanted.features = nabla_machine_kernels(target, spec->m_max != 1);
  const char *objection = nabla_fused_objection(&wanted);
  if (objection)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "no kernel: %s", objection);
  *out = (nabla_kernel_object){0};
  out->count = nabla_fused_classes(&wanted, out->specs);
  nabla_text text = {0};
  write(out, prefix, &text);
  nabla_status status =
      text.failed ? nabla_fail(diag, NABLA_NO_MEMORY, "no memory for kernels")
                  : compile(context, target, &text, &out->object, diag);
  nabla_text_deinit(&text);
  return status;
}
