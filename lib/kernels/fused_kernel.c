/* Kernels of the fused dot product: the specs that have a kernel, and the
 * function around the code of a variant. */
#include "lib/kernels/fused_kernel.h"

#include <string.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/builder/to_llvm_dialect.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/variants.h"
#include "quant/codec/codec.h"

/* Sizes up to here keep every address of the kernel in an i64. */
#define ELEMENTS_MAX ((uint64_t)1 << 48)

/* The index of the last element of w; false on overflow. */
static int last_element(const nabla_fused_spec *spec, uint64_t *out) {
  uint64_t n, k, sum;
  return !__builtin_mul_overflow(spec->n - 1, spec->stride_n, &n) &&
         !__builtin_mul_overflow(spec->k - 1, spec->stride_k, &k) &&
         !__builtin_add_overflow(n, k, &sum) &&
         !__builtin_add_overflow(sum, spec->offset, out);
}

static int is_float(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F16 ||
         dtype == NABLA_DTYPE_BF16;
}

static int has_operand(nabla_fused_step step) {
  return step == NABLA_STEP_BIAS || step == NABLA_STEP_ADD;
}

static const char *objection_to_steps(const nabla_fused_spec *spec) {
  uint32_t operands = 0;
  if (spec->step_count > NABLA_FUSED_MAX_STEPS)
    return "an epilogue has at most 8 steps";
  for (uint32_t i = 0; i < spec->step_count; i++) {
    if ((uint32_t)spec->steps[i] > (uint32_t)NABLA_STEP_SILU)
      return "an unknown step of the epilogue";
    operands += (uint32_t)has_operand(spec->steps[i]);
  }
  if (NABLA_ARG_EPILOGUE + operands > NABLA_KERNEL_ARGS)
    return "the epilogue has too many operands";
  return NULL;
}

static const char *objection_to_format(const nabla_fused_spec *spec) {
  nabla_packed_size size;
  uint64_t bytes;
  if (spec->w.ggml)
    return nabla_ggml_size(spec->w.ggml,
                           spec->any_size ? 0 : spec->storage_elements, &bytes,
                           NULL)
               ? "the storage is no whole number of blocks"
               : NULL;
  const nabla_format *format = &spec->w.format;
  if (!format->encoding)
    return is_float(spec->w_stored) ? NULL
                                    : "a dense weight is not F32, F16 or BF16";
  if (format->granularity == NABLA_PER_TENSOR)
    return "one scale for all elements";
  if (format->segment) return "blocks that begin anew in each row";
  if (format->scale == NABLA_SCALE_DYNAMIC8 && !spec->w.nested_block)
    return "packed scales without a block";
  if (!spec->any_size &&
      nabla_format_size(format, spec->storage_elements, &size, NULL))
    return "the storage is not one that the encoding can have";
  return NULL;
}

static const char *objection_to_sizes(const nabla_fused_spec *spec) {
  uint64_t last;
  if (spec->any_size)
    return spec->any_size % NABLA_LANES || spec->any_size > 4096
               ? "K of any size is a multiple of 16 to 4096"
               : NULL;
  if (spec->open)
    return nabla_spec_is_dense(spec) &&
                   (spec->stride_k == 1) != (spec->stride_n == 1)
               ? NULL
               : "sizes are not known of a weight that is not dense rows or "
                 "columns";
  if (spec->storage_elements > ELEMENTS_MAX || spec->n > ELEMENTS_MAX ||
      spec->k > ELEMENTS_MAX)
    return "the weight has more than 2^48 elements";
  if (spec->n > 1 && spec->k > 1 && spec->stride_n != 1 && spec->stride_k != 1)
    return "the weight is consecutive along neither dimension";
  if (spec->n && spec->k &&
      (!last_element(spec, &last) || last >= spec->storage_elements))
    return "the view reaches beyond the storage";
  return NULL;
}

/* Every part of the range of M has a variant. */
static const char *objection_to_bodies(const nabla_fused_spec *spec) {
  nabla_fused_spec parts[NABLA_FUSED_CLASSES_MAX];
  uint32_t count = nabla_fused_classes(spec, parts);
  for (uint32_t i = 0; i < count; i++)
    if (!nabla_variant_of(&parts[i]))
      return spec->variant ? "this variant does not compute that"
                           : "no kernel has these numerics and this layout for "
                             "the encoding and the target";
  return NULL;
}

const char *nabla_fused_objection(const nabla_fused_spec *spec) {
  const char *why = objection_to_format(spec);
  if (!why) why = objection_to_sizes(spec);
  if (why) return why;
  if (!is_float(spec->x_type) || !is_float(spec->y_type) ||
      !is_float(spec->w_type))
    return "elements are neither F32 nor F16 nor BF16";
  why = objection_to_steps(spec);
  return why ? why : objection_to_bodies(spec);
}

nabla_ssa nabla_emit_argument(nabla_emitter *e, uint64_t arg) {
  return k_op(e, "llvm.load %%v%u {alignment = 8 : i64} : !llvm.ptr -> i64",
              k_op(e,
                   "llvm.getelementptr %%args[%u] : (!llvm.ptr) -> !llvm.ptr, "
                   "i64",
                   (unsigned)arg));
}

nabla_ssa nabla_emit_pointer(nabla_emitter *e, uint64_t arg) {
  nabla_ssa address = nabla_emit_argument(e, arg);
  return k_op(e, "llvm.inttoptr %%v%u : i64 to !llvm.ptr", address);
}

/* N or K: a constant, or an argument that is a multiple of `unit`, written so
 * that LLVM knows the multiple. */
static nabla_ssa size_of(nabla_emitter *e, uint64_t known, uint64_t arg,
                         uint64_t unit, uint32_t open) {
  if (e->spec->open & open) return nabla_emit_argument(e, arg);
  if (!e->spec->any_size) return k_i64(e, known);
  return k_multiply(e, k_divide(e, nabla_emit_argument(e, arg), unit), unit);
}

/* Loads the kernel arguments; unused loads are removed later
 * (to_llvm_dialect.h). */
static void load_args(nabla_emitter *e) {
  const nabla_fused_spec *spec = e->spec;
  uint64_t arg = NABLA_ARG_EPILOGUE;
  e->x = nabla_emit_pointer(e, NABLA_ARG_X);
  e->y = nabla_emit_pointer(e, NABLA_ARG_Y);
  e->m = nabla_emit_argument(e, NABLA_ARG_M);
  e->n = size_of(e, spec->n, NABLA_ARG_N, 1, NABLA_OPEN_N);
  e->k = size_of(e, spec->k, NABLA_ARG_K, spec->any_size, NABLA_OPEN_K);
  if (spec->open & NABLA_OPEN_STRIDE)
    e->w_stride = nabla_emit_argument(e, NABLA_ARG_W_STRIDE);
  e->x_stride = spec->x_layout == NABLA_X_STRIDED
                    ? nabla_emit_argument(e, NABLA_ARG_X_STRIDE)
                    : e->k;
  e->codes = nabla_emit_pointer(e, NABLA_ARG_CODES);
  e->scales = nabla_emit_pointer(e, NABLA_ARG_SCALES);
  if (spec->w.format.zero_point)
    e->zeros = nabla_emit_pointer(e, NABLA_ARG_ZERO_POINTS);
  if (spec->w.format.scale == NABLA_SCALE_DYNAMIC8) {
    e->nested_scales = nabla_emit_pointer(e, NABLA_ARG_NESTED_SCALES);
    e->nested_offset = nabla_emit_pointer(e, NABLA_ARG_NESTED_OFFSET);
    e->nested_map = nabla_emit_pointer(e, NABLA_ARG_NESTED_MAP);
  }
  e->workspace = nabla_emit_pointer(e, NABLA_ARG_WORKSPACE);
  e->packed = nabla_emit_pointer(e, NABLA_ARG_PACKED);
  for (uint32_t i = 0; i < spec->step_count; i++)
    if (has_operand(spec->steps[i]))
      e->operands[i] = nabla_emit_pointer(e, arg++);
}

nabla_ssa nabla_emit_reserve(nabla_emitter *e, uint64_t bytes) {
  nabla_ssa count = k_i64(e, bytes);
  return k_op(
      e, "llvm.alloca %%v%u x i8 {alignment = 64 : i64} : (i64) -> !llvm.ptr",
      count);
}

/* Variants for few rows expect at least one. */
static void open_if_rows(nabla_emitter *e) {
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa some = k_op(e, "arith.cmpi ne, %%v%u, %%v%u : i64", e->m, zero);
  k_line(e, "scf.if %%v%u {", some);
}

/* The stack is probed page by page, so that no access passes its end
 * unnoticed; on AVX-512 vectors have the whole width also where the tuning of a
 * CPU prefers half of it. Functions that the kernel calls are not inlined. */
void nabla_emit_kernel(nabla_emitter *e, const char *suffix,
                       void (*write)(nabla_emitter *, const void *),
                       const void *context, nabla_text *text) {
  nabla_text inside = {0};
  nabla_constants constants = {.count = 0};
  nabla_sums sums = {.of = {{0}}};
  e->text = &inside;
  e->constants = &constants;
  e->sums = &sums;
  nabla_text_add(text,
                 "llvm.func internal @%s%s(%%args: !llvm.ptr, %%begin: i64, "
                 "%%end: i64) attributes {nabla.kernel, passthrough = "
                 "[\"nounwind\", [\"probe-stack\", \"inline-asm\"]%s%s]} {\n",
                 e->name, suffix, *suffix ? ", \"noinline\"" : "",
                 NABLA_HAS(e->spec->features, AVX512F)
                     ? ", [\"prefer-vector-width\", \"512\"]"
                     : "");
  write(e, context);
  if (inside.data) nabla_text_add(&constants.text, "%s", inside.data);
  constants.text.failed |= inside.failed;
  nabla_to_llvm_dialect_add(&constants.text, e->last, text);
  nabla_text_deinit(&constants.text);
  nabla_text_deinit(&inside);
  nabla_text_add(text, "  llvm.return\n}\n");
  e->text = text;
  e->constants = NULL;
  e->sums = NULL;
}

/* A function of a fused product. */
typedef struct body {
  uint64_t scratch;
  const char *suffix;
  void (*write)(nabla_emitter *);
} body;

static void write_body(nabla_emitter *e, const void *context) {
  const body *b = context;
  const nabla_fused_spec *spec = e->spec;
  if (!spec->n && !spec->any_size && !(spec->open & NABLA_OPEN_N)) return;
  load_args(e);
  nabla_ssa zero = k_i64(e, 0);
  e->begin = k_op(e, "arith.addi %%begin, %%v%u : i64", zero);
  e->end = k_op(e, "arith.addi %%end, %%v%u : i64", zero);
  if (b->scratch) e->scratch = nabla_emit_reserve(e, b->scratch);
  int guarded = !spec->m_min && !*b->suffix;
  if (guarded) open_if_rows(e);
  b->write(e);
  if (guarded) k_line(e, "}");
}

void nabla_emit_function(const nabla_fused_spec *spec, const char *name,
                         const char *suffix, uint64_t scratch,
                         void (*write)(nabla_emitter *), nabla_text *text) {
  const body b = {scratch, suffix, write};
  nabla_emitter e = {.spec = spec, .name = name};
  e.is_once = !strcmp(suffix, "_prepare") || !strcmp(suffix, "_prepack");
  nabla_emit_kernel(&e, suffix, write_body, &b, text);
}

void nabla_fused_emit(const nabla_fused_spec *spec, const char *name,
                      nabla_text *text) {
  const nabla_kernel_variant *variant = nabla_variant_of(spec);
  uint64_t scratch = variant->scratch ? variant->scratch(spec) : 0;
  nabla_emit_function(spec, name, "", scratch, variant->run, text);
  if (nabla_fused_has_prepare(spec))
    nabla_emit_function(spec, name, "_prepare", variant->pack_a_scratch,
                        variant->pack_a, text);
  if (nabla_fused_has_prepack(spec))
    nabla_emit_function(spec, name, "_prepack", scratch, variant->prepack,
                        text);
  if (variant->has_exact) {
    nabla_fused_spec exact = nabla_fused_exact(spec);
    variant = nabla_variant_of(&exact);
    nabla_emit_function(&exact, name, "_exact", variant->scratch(&exact),
                        variant->run, text);
  }
}
