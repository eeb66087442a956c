/* Writing a kernel as MLIR text: numbered values, loops that carry
 * accumulators, loads and stores of the floats that arrays hold. Functions
 * are defined in convert_f16_bf16.c and lib/kernels/fused_kernel.c too. */
#ifndef NABLA_KERNELS_BUILDER_EMIT_H
#define NABLA_KERNELS_BUILDER_EMIT_H

#include "lib/kernels/fused_kernel.h"

/* Elements of a vector in every kernel; LLVM splits them for smaller ones. */
#define NABLA_LANES 16u

/* The value %vN of the function being written; 0 is none. */
typedef unsigned nabla_ssa;

/* Constants of a function: in front of all else, so that each is there once,
 * wherever it is used. They are a quarter of what is written. */
#define NABLA_CONSTANTS_MAX 256u
typedef struct nabla_constants {
  nabla_text text;
  unsigned count;
  struct {
    size_t at, length; /* its operation in `text` */
    nabla_ssa value;
  } known[NABLA_CONSTANTS_MAX];
} nabla_constants;

/* What is known of sums and addresses; see index_fold.c. */
#define NABLA_MADE_MAX 256u
typedef struct nabla_sum {
  nabla_ssa value, root; /* value = root + constant */
  uint64_t constant;
} nabla_sum;
typedef struct nabla_made {
  char kind;
  nabla_ssa a, b, value;
} nabla_made;
typedef struct nabla_sums {
  nabla_sum of[NABLA_MADE_MAX];
  nabla_made made[NABLA_MADE_MAX]; /* where it can be seen from here */
} nabla_sums;

typedef struct nabla_emitter {
  nabla_text *text;
  /* NULL in the lowering of single operations (transforms/lower/lowering.h):
   * what is asked for is written where it is asked for. */
  nabla_constants *constants;
  nabla_sums *sums;
  const nabla_fused_spec *spec;
  const char *name; /* of the kernel */
  int is_once;    /* the function runs once for each x or w: it may be slower */
  nabla_ssa last; /* the last number given */
  nabla_ssa begin, end;                    /* columns of y to compute */
  nabla_ssa x, y, m, codes, scales, zeros; /* what the words hold */
  nabla_ssa n, k;                          /* constants or words, i64 */
  nabla_ssa workspace, packed;
  nabla_ssa nested_scales, nested_offset, nested_map; /* with DYNAMIC8 */
  nabla_ssa scratch; /* on the stack, if the variant asks */
  nabla_ssa operands[NABLA_FUSED_MAX_STEPS]; /* of each step, if it has one */
} nabla_emitter;

/* Whether an operation is on one element or on NABLA_LANES. */
typedef enum nabla_shape { NABLA_SCALAR, NABLA_VECTOR } nabla_shape;

/* Types as text, by shape: "f32" or "vector<16xf32>". */
extern const char *const nabla_type_f32[2];
extern const char *const nabla_type_i32[2];
extern const char *const nabla_type_i16[2];
extern const char *const nabla_type_f16[2];

/* Appends a function of the kernel: @NAME and a suffix, what loads the words,
 * and the code that `write` writes, with `scratch` bytes of the stack. */
void nabla_emit_function(const nabla_fused_spec *spec, const char *name,
                         const char *suffix, uint64_t scratch,
                         void (*write)(nabla_emitter *), nabla_text *text);

/* One operation with one result, or one line without. A constant is written
 * once, in front of all. `take` is an operation that no line holds. */
nabla_ssa nabla_emit(nabla_emitter *e, const char *format, ...)
    NABLA_PRINTF(2, 3);
nabla_ssa nabla_emit_taken(nabla_emitter *e, nabla_text *take);
void nabla_emit_line(nabla_emitter *e, const char *format, ...)
    NABLA_PRINTF(2, 3);

/* A region has ended: what was made in it cannot be used any more. */
void nabla_emit_leave(nabla_emitter *e);

/* Arithmetic of i64, which indices are: none is negative, and no sum or product
 * is 2^63 or more. */
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

/* Constants of f32: one value in all lanes, or a value for each. */
nabla_ssa nabla_emit_f32(nabla_emitter *e, nabla_shape shape, double value);
nabla_ssa nabla_emit_f32_lanes(nabla_emitter *e, const float *values);
nabla_ssa nabla_emit_i32(nabla_emitter *e, nabla_shape shape, uint32_t value);
nabla_ssa nabla_emit_i32_lanes(nabla_emitter *e, const uint32_t *values);
/* A vector of NABLA_LANES values, each "f32" or "i32". */
nabla_ssa nabla_emit_from_elements(nabla_emitter *e, const char *type,
                                   const nabla_ssa *values);
/* Lanes [first, end). */
nabla_ssa nabla_emit_mask(nabla_emitter *e, unsigned first, unsigned end);

/* f32 arithmetic. `nabla_emit_fma` is a * b + c, fused where the target can. */
nabla_ssa nabla_emit_binary(nabla_emitter *e, nabla_shape shape,
                            const char *operation, nabla_ssa a, nabla_ssa b);
nabla_ssa nabla_emit_fma(nabla_emitter *e, nabla_shape shape, nabla_ssa a,
                         nabla_ssa b, nabla_ssa c);
nabla_ssa nabla_emit_broadcast(nabla_emitter *e, const char *type,
                               nabla_ssa value);
/* The sum of all lanes as a tree: 4 additions long. */
nabla_ssa nabla_emit_sum(nabla_emitter *e, nabla_ssa vector);

/* arith.OPERATION of i32. */
nabla_ssa nabla_emit_i32_binary(nabla_emitter *e, nabla_shape shape,
                                const char *operation, nabla_ssa a,
                                nabla_ssa b);
nabla_ssa nabla_emit_i32_with(nabla_emitter *e, nabla_shape shape,
                              const char *operation, nabla_ssa a, uint32_t b);

/* A shuffle of vectors of `lanes` elements "i8", "i32", "f32": lane i of the
 * result, which has `count`, is lane `pick(i, context)` of a and b. */
typedef unsigned nabla_pick(unsigned lane, unsigned context);
nabla_ssa nabla_emit_shuffle(nabla_emitter *e, const char *element,
                             unsigned lanes, nabla_ssa a, nabla_ssa b,
                             unsigned count, nabla_pick *pick,
                             unsigned context);

/* Some picks: context is the first lane; every second lane from it. */
unsigned nabla_pick_from(unsigned lane, unsigned context);
unsigned nabla_pick_second(unsigned lane, unsigned context);

/* A vector as one of another type. */
nabla_ssa nabla_emit_bitcast(nabla_emitter *e, const char *from, const char *to,
                             nabla_ssa value);

/* The address `bytes` after `base`. */
nabla_ssa nabla_emit_address(nabla_emitter *e, nabla_ssa base, nabla_ssa bytes);
/* Loads and stores a value of an MLIR type. */
nabla_ssa nabla_emit_load(nabla_emitter *e, const char *type, nabla_ssa base,
                          nabla_ssa byte, unsigned alignment);
void nabla_emit_store(nabla_emitter *e, const char *type, nabla_ssa value,
                      nabla_ssa base, nabla_ssa byte, unsigned alignment);
/* Asks for the cache line at `base` + `byte`, which may lie anywhere. */
void nabla_emit_prefetch(nabla_emitter *e, nabla_ssa base, nabla_ssa byte);

/* The same of the line at `address`, for the second cache. */
void nabla_emit_prefetch_far(nabla_emitter *e, nabla_ssa address);

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

/* i16 bits of F16 or BF16 as f32, and f32 rounded to such bits. */
nabla_ssa nabla_emit_widen(nabla_emitter *e, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa half);
nabla_ssa nabla_emit_narrow(nabla_emitter *e, nabla_shape shape,
                            nabla_dtype dtype, nabla_ssa value);

/* The bits of the size of an f32, i32: as integers they compare like sizes, NaN
 * above infinity. */
nabla_ssa nabla_emit_size_bits(nabla_emitter *e, nabla_shape shape,
                               nabla_ssa value);

/* `value` (f32) rounded to a value of `dtype`, as f32. */
nabla_ssa nabla_emit_round(nabla_emitter *e, nabla_shape shape,
                           nabla_dtype dtype, nabla_ssa value);

/* A loop over i64 that carries accumulators of vector<16xf32>. LLVM does not
 * look for more vectors in it unless `is_open` is set before its end: what
 * loops of scalars are left with are fewer elements than a vector has, for
 * which it would write a sixth of the code. */
#define NABLA_LOOP_MAX 32u
typedef struct nabla_loop {
  nabla_ssa induction;
  int is_open;
  unsigned count;                    /* of accumulators */
  nabla_ssa carried[NABLA_LOOP_MAX]; /* inside; after the end: the results */
  nabla_ssa results[NABLA_LOOP_MAX];
} nabla_loop;

/* `initial` has `count` values. The body yields as many to nabla_loop_end. */
void nabla_loop_begin(nabla_emitter *e, nabla_loop *loop, nabla_ssa from,
                      nabla_ssa to, uint64_t step, unsigned count,
                      const nabla_ssa *initial);
void nabla_loop_end(nabla_emitter *e, nabla_loop *loop,
                    const nabla_ssa *yielded);

#endif
