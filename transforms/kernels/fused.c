/* Kernels of the fused dot product: what is possible, and the function around
 * the bodies of row.c, line.c and column.c. */
#include "transforms/kernels/fused.h"

#include "quant/codec.h"
#include "transforms/kernels/decode.h"
#include "transforms/kernels/shapes.h"

/* y in one thread's range begins and ends at cache lines. */
#define ROW_GRAIN 16u

/* Sizes up to here keep every address of the kernel in an i64. */
#define ELEMENTS_MAX ((uint64_t)1 << 48)

static int is_row(const nabla_fused_spec *spec) {
  if (spec->k <= 1 && spec->stride_n == 1) return 0;
  return spec->stride_k == 1 || spec->k <= 1;
}

/* The last element of w, if that can be represented. */
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
  if (NABLA_FUSED_EPILOGUE + operands > NABLA_FUSED_WORDS)
    return "the epilogue has too many operands";
  return NULL;
}

/* Tables of 16 values with the first code in the high half of its byte, and
 * integers. */
static int has_kernel(const nabla_encoding *encoding) {
  return nabla_spec_is_integer(encoding) ||
         (encoding->bits == 4 && encoding->high_first);
}

const char *nabla_fused_objection(const nabla_fused_spec *spec) {
  nabla_packed_size size;
  uint64_t last;
  const nabla_encoding *encoding = spec->format.encoding;
  if (!encoding || !has_kernel(encoding))
    return "only nf4, fp4, int8 and int4 have kernels";
  if (spec->format.granularity == NABLA_PER_ROW && encoding->bits != 8)
    return "only 8-bit codes have one scale per row";
  if (nabla_format_size(&spec->format, spec->storage_elements, &size, NULL))
    return "the storage is not one that the encoding can have";
  if (spec->storage_elements > ELEMENTS_MAX || spec->n > ELEMENTS_MAX ||
      spec->k > ELEMENTS_MAX)
    return "the weight has more than 2^48 elements";
  if (!is_float(spec->x_type) || !is_float(spec->y_type) ||
      !is_float(spec->w_type))
    return "elements are neither F32 nor F16 nor BF16";
  if (spec->n > 1 && spec->k > 1 && spec->stride_n != 1 && spec->stride_k != 1)
    return "the weight is consecutive along neither dimension";
  if (spec->n && spec->k &&
      (!last_element(spec, &last) || last >= spec->storage_elements))
    return "the view reaches beyond the storage";
  return objection_to_steps(spec);
}

uint64_t nabla_fused_grain(const nabla_fused_spec *spec) {
  return is_row(spec) ? ROW_GRAIN : nabla_columns_grain();
}

uint64_t nabla_fused_chain(const nabla_fused_spec *spec) {
  if (!is_row(spec)) return nabla_columns_chain(spec);
  uint64_t chain = nabla_rows_chain(spec);
  uint64_t lines = nabla_lines_apply(spec) ? nabla_lines_chain(spec) : 0;
  return lines > chain ? lines : chain;
}

static nabla_ssa load_word(nabla_emitter *emitter, uint64_t word) {
  return nabla_emit(
      emitter, "llvm.load %%v%u {alignment = 8 : i64} : !llvm.ptr -> i64",
      nabla_emit(emitter,
                 "llvm.getelementptr %%args[%u] : (!llvm.ptr) -> !llvm.ptr, "
                 "i64",
                 (unsigned)word));
}

static nabla_ssa load_pointer(nabla_emitter *emitter, uint64_t word) {
  nabla_ssa address = load_word(emitter, word);
  return nabla_emit(emitter, "llvm.inttoptr %%v%u : i64 to !llvm.ptr", address);
}

/* The words of the argument array, and the scratch: for x rearranged (line.c)
 * or for sums. */
static void emit_prologue(nabla_emitter *emitter) {
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t word = NABLA_FUSED_EPILOGUE;
  emitter->x = load_pointer(emitter, NABLA_FUSED_X);
  emitter->y = load_pointer(emitter, NABLA_FUSED_Y);
  emitter->m = load_word(emitter, NABLA_FUSED_M);
  emitter->codes = load_pointer(emitter, NABLA_FUSED_CODES);
  emitter->scales = load_pointer(emitter, NABLA_FUSED_SCALES);
  if (spec->format.zero_point)
    emitter->zeros = load_pointer(emitter, NABLA_FUSED_ZERO_POINTS);
  for (uint32_t i = 0; i < spec->step_count; i++)
    if (has_operand(spec->steps[i]))
      emitter->operands[i] = load_pointer(emitter, word++);
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  emitter->begin = nabla_emit(emitter, "arith.addi %%begin, %%v%u : i64", zero);
  emitter->end = nabla_emit(emitter, "arith.addi %%end, %%v%u : i64", zero);
  uint64_t room = (uint64_t)NABLA_SUMS_MAX * NABLA_LANES;
  if (is_row(spec) && nabla_lines_apply(spec) && spec->k > room) room = spec->k;
  nabla_ssa count = nabla_emit_i64(emitter, room);
  emitter->scratch = nabla_emit(
      emitter,
      "llvm.alloca %%v%u x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr",
      count);
}

/* The stack is probed page by page, so that the room for x never steps over
 * its end unseen; on AVX-512 the whole width is wanted also where the tuning of
 * a CPU prefers half of it. */
void nabla_fused_emit(const nabla_fused_spec *spec, const char *name,
                      nabla_text *text) {
  nabla_emitter emitter = {.text = text, .spec = spec};
  nabla_text_add(text,
                 "llvm.func internal @%s(%%args: !llvm.ptr, %%begin: i64, "
                 "%%end: i64) attributes {nabla.kernel, passthrough = "
                 "[\"nounwind\", [\"probe-stack\", \"inline-asm\"]%s]} {\n",
                 name,
                 NABLA_HAS(spec->features, AVX512F)
                     ? ", [\"prefer-vector-width\", \"512\"]"
                     : "");
  if (spec->n) {
    emit_prologue(&emitter);
    if (is_row(spec))
      nabla_emit_rows(&emitter);
    else
      nabla_emit_columns(&emitter);
  }
  nabla_text_add(text, "  llvm.return\n}\n");
}
