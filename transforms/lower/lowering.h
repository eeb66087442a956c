/* Writing the lowering of one operation as text: a module with a function @t
 * (nabla_template_replace), its tensors, loops and checks. This folder has one
 * function for each word in the column LOWER of dialect/ops.def:
 *   bool nabla_lower_<word>(nabla_template *t)
 * false after an error was reported. Functions are defined in lowering.c,
 * loops.c, silu.c and steps.c. */
#ifndef NABLA_TRANSFORMS_LOWER_LOWERING_H
#define NABLA_TRANSFORMS_LOWER_LOWERING_H

#include "dialect/encoding/encoding.h"
#include "lib/kernels/builder/emit.h"
#include "transforms/ir/ir.h"

/* Element types that lowerings know. */
typedef struct nabla_element {
  const char *name;  /* "bf16" */
  const char *work;  /* the type it is computed in: "f32" */
  const char *least; /* the lowest value, of type `work` */
  bool is_float, is_unsigned;
  nabla_dtype half; /* F16 and BF16, else F32 */
} nabla_element;

/* NULL for a type that the dialect's tensors do not have. */
const nabla_element *nabla_element_find(MlirType type);
/* `name` must be in the table. */
const nabla_element *nabla_element_named(const char *name);

/* The highest value, as `least`. */
const char *nabla_element_greatest(const nabla_element *element);

typedef struct nabla_template {
  MlirOperation op;
  nabla_text text;
  nabla_fused_spec spec; /* for its features */
  nabla_emitter emit;    /* numbers values; writes to `text` */
  /* Those of the op, unless a lowering sets others before it opens. */
  MlirValue operands[NABLA_MAX_OPERANDS];
  intptr_t operand_count;
  nabla_ssa where; /* the text that names the op in failures; 0: not used */
} nabla_template;

/* False, reported, for an op with more operands than any has. */
bool nabla_template_init(nabla_template *t, MlirOperation op,
                         nabla_features features);
void nabla_template_deinit(nabla_template *t);

/* Begins the function. */
void nabla_template_open(nabla_template *t);
/* Marks an op that was made of a dot_general: errors of running code name that
 * one. */
#define NABLA_OF_DOT "nabla.dot_general"

/* Behind the function, what nabla_template_require in it refers to. */
void nabla_template_add_where(nabla_template *t);
/* Ends it, and puts it in the op's place: `result` replaces the op's. */
bool nabla_template_close(nabla_template *t, nabla_ssa result);
/* The same with a value for each of the op's `count` results. */
bool nabla_template_close_all(nabla_template *t, intptr_t count,
                              const nabla_ssa *results);

/* A tensor of the function. */
typedef struct nabla_ssa_tensor {
  nabla_ssa value;
  const nabla_element *element;
  intptr_t rank;
  int64_t dims[NABLA_MAX_RANK];
  nabla_ssa sizes[NABLA_MAX_RANK]; /* as index; 0: not asked for yet */
} nabla_ssa_tensor;

typedef struct nabla_type_text {
  char data[448];
} nabla_type_text;

nabla_type_text nabla_ssa_tensor_type(const nabla_ssa_tensor *tensor);

/* Operand `index`, which is a tensor. */
nabla_ssa_tensor nabla_template_operand(const nabla_template *t,
                                        intptr_t index);
/* Shape and element type of result 0; it has no value yet. */
nabla_ssa_tensor nabla_template_result(const nabla_template *t);
/* One of static dimensions without a value. */
nabla_ssa_tensor nabla_ssa_tensor_static(const char *element, intptr_t rank,
                                         const int64_t *dims);

/* Size of a dimension as an index. */
nabla_ssa nabla_ssa_tensor_size(nabla_template *t, nabla_ssa_tensor *tensor,
                                intptr_t dim);

/* An uninitialised tensor of the shape of `shape`, whose sizes are known or can
 * be taken from its value. */
nabla_ssa_tensor nabla_ssa_tensor_empty(nabla_template *t,
                                        nabla_ssa_tensor *shape,
                                        const char *element);
/* The same, all elements being `value`, of the element type. */
nabla_ssa_tensor nabla_ssa_tensor_full(nabla_template *t,
                                       nabla_ssa_tensor *shape,
                                       const char *element, const char *value);

/* The elements of `tensor`, in order, in rank 1; a dynamic size stays one. */
nabla_ssa_tensor nabla_ssa_tensor_flatten(nabla_template *t,
                                          const nabla_ssa_tensor *tensor);
/* `flat`, of rank 1, in another shape with as many elements, at most one of
 * whose dimensions is dynamic, with its size. */
nabla_ssa_tensor nabla_ssa_tensor_unflatten(nabla_template *t,
                                            const nabla_ssa_tensor *flat,
                                            const nabla_ssa_tensor *shape);

/* Fails at run time unless two sizes (index) are equal. */
void nabla_template_require(nabla_template *t, nabla_ssa a, nabla_ssa b);
/* Fails at run time unless `zeros`, i64, is 0: how many divisors are. */
void nabla_template_require_divisors(nabla_template *t, nabla_ssa zeros);
/* The same for two dimensions; nothing when it is known before. */
void nabla_tensors_agree(nabla_template *t, nabla_ssa_tensor *a, intptr_t a_dim,
                         nabla_ssa_tensor *b, intptr_t b_dim);

/* Takes operands from `first` on as the sizes of the dynamic dimensions of
 * `tensor`, and requires that none is negative. */
void nabla_template_take_sizes(nabla_template *t, intptr_t first,
                               nabla_ssa_tensor *tensor);

/* Index arithmetic outside of loops. */
nabla_ssa nabla_emit_index(nabla_template *t, int64_t value);

/* A linalg.generic. Zero-initialise, set the loops, add inputs, then the
 * output. */
#define NABLA_GENERIC_MAX   6
#define NABLA_GENERIC_LOOPS (2 * NABLA_MAX_RANK)
typedef struct nabla_generic {
  intptr_t loops, reductions; /* the last loops are the reductions, */
  intptr_t inner;             /* but for so many behind them        */
  intptr_t count, output;     /* operands; the last one is the output */
  struct {
    nabla_ssa_tensor tensor;
    intptr_t map[NABLA_MAX_RANK]; /* loop of each dimension, or NABLA_AT(n) */
    nabla_ssa element;            /* in the body */
  } operands[NABLA_GENERIC_MAX];
  nabla_ssa result;
} nabla_generic;

/* Index n in a map instead of a loop. */
#define NABLA_AT(n) (-1 - (intptr_t)(n))

/* `map` NULL: dimension i is loop i. */
void nabla_generic_add(nabla_generic *g, const nabla_ssa_tensor *tensor,
                       const intptr_t *map);
void nabla_generic_begin(nabla_template *t, nabla_generic *g);
/* Ends the body with `element`, of the output's type. */
nabla_ssa_tensor nabla_generic_end(nabla_template *t, nabla_generic *g,
                                   nabla_ssa element);
/* The same where the operand behind the output is one too, which `output` - 1
 * said before the body began; gives the first. */
nabla_ssa_tensor nabla_generic_end_two(nabla_template *t, nabla_generic *g,
                                       nabla_ssa element, nabla_ssa second);

/* In a body: element of operand `index` as its work type. */
nabla_ssa nabla_generic_load(nabla_template *t, const nabla_generic *g,
                             intptr_t index);
/* A value of the work type as an element. */
nabla_ssa nabla_element_load(nabla_template *t, const nabla_element *element,
                             nabla_ssa value);
nabla_ssa nabla_element_store(nabla_template *t, const nabla_element *element,
                              nabla_ssa value);
/* The index of a loop, as an index. */
nabla_ssa nabla_generic_index(nabla_template *t, intptr_t loop);

/* Every element converted to another type: f16, bf16, f32 and f64 among each
 * other, or a work type to the type that it stands for. */
nabla_ssa_tensor nabla_ssa_tensor_convert(nabla_template *t,
                                          nabla_ssa_tensor *tensor,
                                          const nabla_element *to);

/* The f32 constant of these bits. */
nabla_ssa nabla_emit_f32_bits(nabla_template *t, uint32_t bits);

/* The code of each value in [-1, 1] for an encoding with a table: `first` below
 * all steps, then that of the last step that is <= value. */
#define NABLA_STEPS_MAX 64
typedef struct nabla_code_steps {
  unsigned count;
  uint8_t first;
  struct {
    float from;
    uint8_t code;
  } steps[NABLA_STEPS_MAX];
} nabla_code_steps;

/* Finds them by asking the encoding's scalar definition. False when it has more
 * than NABLA_STEPS_MAX. */
bool nabla_code_steps_find(const nabla_encoding *encoding,
                           nabla_code_steps *out);

/* x / (1 + exp(-x)) of an f64. */
nabla_ssa nabla_emit_silu_f64(nabla_template *t, nabla_ssa x);

#endif
