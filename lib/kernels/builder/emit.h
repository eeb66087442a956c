/* The IR builder of kernels: MLIR text with numbered SSA values, loops that
 * carry accumulators, loads and stores of F32, F16 and BF16. Functions are
 * defined in convert_f16_bf16.c and lib/kernels/fused_kernel.c too. */
#ifndef NABLA_KERNELS_BUILDER_EMIT_H
#define NABLA_KERNELS_BUILDER_EMIT_H

#include "lib/kernels/fused_kernel.h"

/* Elements of a vector in every kernel; LLVM splits them for smaller ones. */
#define NABLA_LANES 16u

/* The value %vN of the function being written; 0 is none. */
typedef unsigned nabla_ssa;

/* Constants of a function. They are written before all other operations, each
 * once; without that they would be a quarter of the text. */
#define NABLA_CONSTANTS_MAX 256u
typedef struct nabla_constants {
  nabla_text text;
  unsigned count;
  struct {
    size_t at, length; /* its operation in `text` */
    nabla_ssa value;
  } known[NABLA_CONSTANTS_MAX];
} nabla_constants;

/* Known sums and addresses, for index folding; see index_fold.c. */
#define NABLA_MADE_MAX 256u
typedef struct nabla_known_sum {
  nabla_ssa value, root; /* value = root + constant */
  uint64_t constant;
} nabla_known_sum;
typedef struct nabla_made {
  char kind;
  nabla_ssa a, b, value;
} nabla_made;
typedef struct nabla_sums {
  nabla_known_sum of[NABLA_MADE_MAX];
  nabla_made made[NABLA_MADE_MAX]; /* available at this point */
} nabla_sums;

typedef struct nabla_emitter {
  nabla_text *text;
  /* NULL in the lowering of single operations (transforms/lower/lowering.h),
   * where constants and sums are written in place. */
  nabla_constants *constants;
  nabla_sums *sums;
  const nabla_fused_spec *spec;
  const char *name;     /* of the kernel */
  int is_once;          /* runs once for each x or w: size counts, not speed */
  nabla_ssa last;       /* the last number given */
  nabla_ssa begin, end; /* columns of y to compute */
  nabla_ssa x, y, m, codes, scales, zeros; /* loaded kernel arguments */
  nabla_ssa n, k;                          /* constants or arguments, i64 */
  nabla_ssa x_stride;                      /* elements between rows of x */
  nabla_ssa w_stride; /* the same of w, or of columns, if open; else 0 */
  nabla_ssa workspace, packed;
  nabla_ssa nested_scales, nested_offset, nested_map; /* with DYNAMIC8 */
  nabla_ssa scratch; /* on the stack, if the variant needs it */
  nabla_ssa operands[NABLA_FUSED_MAX_STEPS]; /* of each step, if it has one */
} nabla_emitter;

/* Whether an operation has one element or NABLA_LANES. */
typedef enum nabla_shape { NABLA_SCALAR, NABLA_VECTOR } nabla_shape;

/* Types as text, by shape: "f32" or "vector<16xf32>". */
extern const char *const nabla_type_f32[2];
extern const char *const nabla_type_i32[2];
extern const char *const nabla_type_i16[2];
extern const char *const nabla_type_f16[2];

/* Appends the kernel function that `write` writes with the emitter, of which
 * spec and name are set: @NAME and `suffix`. `context` is passed to `write`. */
void nabla_emit_kernel(nabla_emitter *e, const char *suffix,
                       void (*write)(nabla_emitter *, const void *),
                       const void *context, nabla_text *text);

/* The word `arg` of the kernel's arguments: an i64, or an address. */
nabla_ssa nabla_emit_argument(nabla_emitter *e, uint64_t arg);
nabla_ssa nabla_emit_pointer(nabla_emitter *e, uint64_t arg);

/* `bytes` on the stack, aligned to 64. */
nabla_ssa nabla_emit_reserve(nabla_emitter *e, uint64_t bytes);

/* Appends a function of the kernel: @NAME and a suffix, loads of the arguments,
 * `scratch` bytes of stack, and the code that `write` writes. */
void nabla_emit_function(const nabla_fused_spec *spec, const char *name,
                         const char *suffix, uint64_t scratch,
                         void (*write)(nabla_emitter *), nabla_text *text);

/* Writes one operation and returns its result, or one line without a result.
 * nabla_emit_taken takes an operation of any length, and frees `take`. */
nabla_ssa nabla_emit(nabla_emitter *e, const char *format, ...)
    NABLA_PRINTF(2, 3);
nabla_ssa nabla_emit_taken(nabla_emitter *e, nabla_text *take);
void nabla_emit_line(nabla_emitter *e, const char *format, ...)
    NABLA_PRINTF(2, 3);

/* Ends a region: values defined in it are no longer folded with. */
void nabla_emit_leave(nabla_emitter *e);

/* Arithmetic of indices, i64: none is negative, and no sum or product is 2^63
 * or more. */
nabla_ssa nabla_emit_i64(nabla_emitter *e, uint64_t value);
nabla_ssa nabla_emit_add(nabla_emitter *e, nabla_ssa a, nabla_ssa b);
nabla_ssa nabla_emit_add_constant(nabla_emitter *e, nabla_ssa a, uint64_t b);
nabla_ssa nabla_emit_multiply(nabla_emitter *e, nabla_ssa a, uint64_t b);
nabla_ssa nabla_emit_product(nabla_emitter *e, nabla_ssa a, nabla_ssa b);
nabla_ssa nabla_emit_divide(nabla_emitter *e, nabla_ssa a, uint64_t b);
nabla_ssa nabla_emit_minimum(nabla_emitter *e, nabla_ssa a, nabla_ssa b);
/* condition ? yes : no; the condition is an i1. */
nabla_ssa nabla_emit_choice(nabla_emitter *e, nabla_ssa condition,
                            nabla_ssa yes, nabla_ssa no);

/* The same of f32: of vectors the condition has a lane for each. */
nabla_ssa nabla_emit_select_f32(nabla_emitter *e, nabla_shape shape,
                                nabla_ssa condition, nabla_ssa yes,
                                nabla_ssa no);

/* Constants of f32: one value in all lanes, or a value for each. */
nabla_ssa nabla_emit_f32(nabla_emitter *e, nabla_shape shape, double value);
nabla_ssa nabla_emit_f32_lanes(nabla_emitter *e, const float *values);
nabla_ssa nabla_emit_i32(nabla_emitter *e, nabla_shape shape, uint32_t value);
nabla_ssa nabla_emit_i32_lanes(nabla_emitter *e, const uint32_t *values);
/* A vector of NABLA_LANES values, each "f32" or "i32". */
nabla_ssa nabla_emit_from_elements(nabla_emitter *e, const char *type,
                                   const nabla_ssa *values);
/* A mask with lanes [first, end) set. */
nabla_ssa nabla_emit_mask(nabla_emitter *e, unsigned first, unsigned end);

/* f32 arithmetic. `nabla_emit_fma` is a * b + c, fused where the target can. */
nabla_ssa nabla_emit_binary(nabla_emitter *e, nabla_shape shape,
                            const char *operation, nabla_ssa a, nabla_ssa b);
nabla_ssa nabla_emit_fma(nabla_emitter *e, nabla_shape shape, nabla_ssa a,
                         nabla_ssa b, nabla_ssa c);
nabla_ssa nabla_emit_broadcast(nabla_emitter *e, const char *type,
                               nabla_ssa value);
/* The sum of all lanes as a tree of depth 4. */
nabla_ssa nabla_emit_sum(nabla_emitter *e, nabla_ssa vector);

/* arith.OPERATION of i32. */
nabla_ssa nabla_emit_i32_binary(nabla_emitter *e, nabla_shape shape,
                                const char *operation, nabla_ssa a,
                                nabla_ssa b);
nabla_ssa nabla_emit_i32_with(nabla_emitter *e, nabla_shape shape,
                              const char *operation, nabla_ssa a, uint32_t b);

/* A shuffle of two vectors of `lanes` elements "i8", "i32", "f32": lane i of
 * the result, which has `count` lanes, is lane `pick(i, context)` of a and
 * b. */
typedef unsigned nabla_pick(unsigned lane, unsigned context);
nabla_ssa nabla_emit_shuffle(nabla_emitter *e, const char *element,
                             unsigned lanes, nabla_ssa a, nabla_ssa b,
                             unsigned count, nabla_pick *pick,
                             unsigned context);

/* Picks: consecutive lanes from `context` on; every second lane from it on. */
unsigned nabla_pick_from(unsigned lane, unsigned context);
unsigned nabla_pick_second(unsigned lane, unsigned context);

/* A bitcast between vector types. */
nabla_ssa nabla_emit_bitcast(nabla_emitter *e, const char *from, const char *to,
                             nabla_ssa value);

/* The address `bytes` after `base`. */
nabla_ssa nabla_emit_address(nabla_emitter *e, nabla_ssa base, nabla_ssa bytes);
/* Loads and stores a value of an MLIR type. */
nabla_ssa nabla_emit_load(nabla_emitter *e, const char *type, nabla_ssa base,
                          nabla_ssa byte, unsigned alignment);
void nabla_emit_store(nabla_emitter *e, const char *type, nabla_ssa value,
                      nabla_ssa base, nabla_ssa byte, unsigned alignment);
/* Prefetches the cache line at `base` + `byte`, which may be any address. */
void nabla_emit_prefetch(nabla_emitter *e, nabla_ssa base, nabla_ssa byte);

/* Prefetches the line at `address` to the second-level cache. */
void nabla_emit_prefetch_far(nabla_emitter *e, nabla_ssa address);

/* Prefetches the line at `address` to the first cache, to be written. */
void nabla_emit_prefetch_write(nabla_emitter *e, nabla_ssa address);

/* An array of F32, F16 or BF16 elements at an address. */
typedef struct nabla_array_ref {
  nabla_ssa base;
  nabla_dtype dtype;
} nabla_array_ref;

/* An array of f32. */
static inline nabla_array_ref nabla_floats_at(nabla_ssa base) {
  return (nabla_array_ref){base, NABLA_DTYPE_F32};
}

/* Elements as f32: one, or `width` <= NABLA_LANES and zeros after them. */
nabla_ssa nabla_emit_read(nabla_emitter *e, nabla_array_ref array,
                          nabla_ssa index);
nabla_ssa nabla_emit_read_lanes(nabla_emitter *e, nabla_array_ref array,
                                nabla_ssa index, unsigned width);

/* Stores f32 rounded half to even: one, or NABLA_LANES. */
void nabla_emit_write(nabla_emitter *e, nabla_array_ref array, nabla_ssa index,
                      nabla_ssa value);
void nabla_emit_write_lanes(nabla_emitter *e, nabla_array_ref array,
                            nabla_ssa index, nabla_ssa value);

/* Writes zeros to the first `count` elements of `array`, f32: a multiple of
 * NABLA_LANES. */
void nabla_emit_clear(nabla_emitter *e, nabla_array_ref array, nabla_ssa count);

/* Converts i16 bits of F16 or BF16 to f32, and f32 to such bits with
 * rounding. */
nabla_ssa nabla_emit_widen(nabla_emitter *e, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa half);
nabla_ssa nabla_emit_narrow(nabla_emitter *e, nabla_shape shape,
                            nabla_dtype dtype, nabla_ssa value);

/* The bits of |value|, i32: as integers they compare like magnitudes, NaN above
 * infinity. */
nabla_ssa nabla_emit_size_bits(nabla_emitter *e, nabla_shape shape,
                               nabla_ssa value);

/* `value` (f32) rounded to a value of `dtype`, as f32. */
nabla_ssa nabla_emit_round(nabla_emitter *e, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa value);

/* A loop over i64 that carries accumulators, vector<16xf32> or of `types`.
 * LLVM's vectorizer is off in it unless `is_open` is set before its end: loops
 * of scalars process fewer elements than a vector has, and vectorized versions
 * of them would be a sixth of the code. */
#define NABLA_LOOP_MAX 32u
typedef struct nabla_loop {
  nabla_ssa induction;
  int is_open;
  unsigned count;                    /* number of accumulators */
  const char *const *types;          /* of each; NULL: vector<16xf32> */
  nabla_ssa carried[NABLA_LOOP_MAX]; /* in it; after its end the results */
  nabla_ssa results[NABLA_LOOP_MAX];
} nabla_loop;

/* `initial` has `count` values. The body yields as many to nabla_loop_end. */
void nabla_loop_begin(nabla_emitter *e, nabla_loop *loop, nabla_ssa from,
                      nabla_ssa to, uint64_t step, unsigned count,
                      const nabla_ssa *initial);
/* The same of accumulators of `types`, which are borrowed until its end. */
void nabla_loop_begin_of(nabla_emitter *e, nabla_loop *loop, nabla_ssa from,
                         nabla_ssa to, uint64_t step, unsigned count,
                         const nabla_ssa *initial, const char *const *types);
void nabla_loop_end(nabla_emitter *e, nabla_loop *loop,
                    const nabla_ssa *yielded);

#endif
