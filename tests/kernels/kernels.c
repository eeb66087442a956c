/* See kernels.h. */
#include "tests/kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nabla_kernel_function entry(const jit_code *code, const char *symbol) {
  return (nabla_kernel_function)jit_find(code, symbol);
}

static void compile(kernels *self, uint32_t i, jit *compiler,
                    const jit_level *level) {
  const nabla_fused_spec *spec = &self->specs[i];
  nabla_kernel *called = &self->called[i];
  nabla_text text = {0};
  nabla_fused_emit(spec, "kernel", &text);
  if (text.failed) {
    (void)fprintf(stderr, "the text of a kernel failed\n");
    exit(1);
  }
  /* what to_llvm_dialect.c has no row for */
  if (strstr(text.data, " arith.") || strstr(text.data, " vector.")) {
    (void)fprintf(stderr, "not in the LLVM dialect:\n%s", text.data);
    exit(1);
  }
  const char *symbols[3] = {"kernel"};
  unsigned count = 1;
  if (nabla_fused_has_prepare(spec)) symbols[count++] = "kernel_prepare";
  if (nabla_fused_has_prepack(spec)) symbols[count++] = "kernel_prepack";
  if (jit_keep_text(text.data)) {
    nabla_text_deinit(&text);
    return;
  }
  self->code[i] = jit_compile_all(compiler, level, text.data, symbols, count);
  nabla_text_deinit(&text);
  nabla_fused_describe(spec, called);
  called->run = entry(self->code[i], "kernel");
  called->prepare = entry(self->code[i], "kernel_prepare");
  called->prepack = entry(self->code[i], "kernel_prepack");
}

kernels kernels_create(jit *compiler, nabla_fused_spec spec,
                       const jit_level *level) {
  kernels self = {0};
  spec.features = nabla_features_parse(level->features);
  const char *objection = nabla_fused_objection(&spec);
  if (objection) {
    (void)fprintf(stderr, "%s\n", objection);
    exit(1);
  }
  self.count = nabla_fused_classes(&spec, self.specs);
  for (uint32_t i = 0; i < self.count; i++) compile(&self, i, compiler, level);
  return self;
}

void kernels_destroy(kernels *self) {
  for (uint32_t i = 0; i < self->count; i++) jit_release(self->code[i]);
  *self = (kernels){0};
}

const nabla_kernel *kernels_for(const kernels *self, uint64_t m) {
  return &self->called[nabla_fused_class_of(self->specs, self->count, m)];
}

static uint64_t bytes_of(const nabla_kernel_tiles *tiles, uint64_t rows,
                         uint64_t columns) {
  uint64_t bytes;
  if (!nabla_kernel_tiles_size(tiles, rows, columns, &bytes)) exit(1);
  return bytes;
}

uint64_t kernels_workspace(const kernels *self, uint64_t m) {
  const nabla_fused_spec *spec =
      &self->specs[nabla_fused_class_of(self->specs, self->count, m)];
  return bytes_of(&kernels_for(self, m)->workspace, m, spec->k);
}

uint64_t kernels_packed(const kernels *self, uint64_t m) {
  const nabla_fused_spec *spec =
      &self->specs[nabla_fused_class_of(self->specs, self->count, m)];
  return bytes_of(&kernels_for(self, m)->packed, spec->n, spec->k);
}

void kernels_prepare(const kernels *self, const uint64_t *words) {
  uint64_t m = words[NABLA_ARG_M];
  const nabla_kernel *kernel = kernels_for(self, m);
  if (kernel->prepare) kernel->prepare(words, 0, m);
}

void kernels_prepack(const kernels *self, const uint64_t *words, uint64_t m) {
  const nabla_kernel *kernel = kernels_for(self, m);
  if (kernel->prepack) kernel->prepack(words, 0, self->specs[0].n);
}
