/* Functions that write the lowering of one operation as text: tensors, loops
 * and checks in a function @t. nabla_template_replace puts its body in place of
 * the op. This folder has one function for each word in the column LOWER of
 * dialect/ops.def:
 *   bool nabla_lower_<word>(nabla_template *t)
 * It returns false after an error was reported. Functions are defined in
 * lowering.c, loops.c and steps.c. */
#ifndef NABLA_TRANSFORMS_LOWER_LOWERING_H
#define NABLA_TRANSFORMS_LOWER_LOWERING_H

#include "dialect/encoding/encoding.h"
#include "lib/kernels/builder/emit.h"
#include "transforms/ir/ir.h"

/* An element type that lowerings support. */
typedef struct nabla_element {
  const char *name;  /* "bf16" */
  const char *work;  /* the type it is computed in: "f32" */
  const char *least; /* the lowest value, of type `work` */
  bool is_float, is_unsigned;
  nabla_dtype half; /* F16 or BF16 if it is that, else F32 */
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
  nabla_fused_spec spec; /* only its CPU features are used */
  nabla_emitter emit;    /* numbers values; writes to `text` */
  /* The op's operands, unless a lowering sets others before it calls
   * nabla_template_open. */
  MlirValue operands[NABLA_MAX_OPERANDS];
  intptr_t operand_count;
  nabla_ssa where; /* string that names the op in errors; 0: not needed yet */
} nabla_template;

/* False, after an error was reported, if the op has more operands than
 * NABLA_MAX_OPERANDS. */
bool nabla_template_init(nabla_template *t, MlirOperation op,
                         nabla_features features);
void nabla_template_deinit(nabla_template *t);

/* Begins the function @t: writes its signature. */
void nabla_template_open(nabla_template *t);
/* Attribute of an op that was made from a dot_general: errors at run time then
 * name dot_general. */
#define NABLA_OF_DOT "nabla.dot_general"

/* Writes, after the function, the symbols that nabla_template_require uses. */
void nabla_template_add_where(nabla_template *t);
/* Ends the function and puts its body in the op's place; `result` replaces the
 * op's result. */
bool nabla_template_close(nabla_template *t, nabla_ssa result);
/* The same with a value for each of the op's `count` results. */
bool nabla_template_close_all(nabla_template *t, intptr_t count,
                              const nabla_ssa *results);

/* A tensor in the function @t: its SSA value and type. */
typedef struct nabla_ssa_tensor {
  nabla_ssa value;
  const nabla_element *element;
  intptr_t rank;
  int64_t dims[NABLA_MAX_RANK];
  nabla_ssa sizes[NABLA_MAX_RANK]; /* of type index; 0: no value yet */
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
/* A tensor type of static dimensions, without a value. */
nabla_ssa_tensor nabla_ssa_tensor_static(const char *element, intptr_t rank,
                                         const int64_t *dims);

/* Size of a dimension as an index. */
nabla_ssa nabla_ssa_tensor_size(nabla_template *t, nabla_ssa_tensor *tensor,
                                intptr_t dim);

/* An uninitialised tensor with the shape of `shape`, whose dynamic sizes are
 * set or are read from its value with tensor.dim. */
nabla_ssa_tensor nabla_ssa_tensor_empty(nabla_template *t,
                                        nabla_ssa_tensor *shape,
                                        const char *element);
/* The same with all elements set to `value`, a constant of the element type. */
nabla_ssa_tensor nabla_ssa_tensor_full(nabla_template *t,
                                       nabla_ssa_tensor *shape,
                                       const char *element, const char *value);

/* `tensor` reshaped to rank 1; its size is dynamic if one of them was. */
nabla_ssa_tensor nabla_ssa_tensor_flatten(nabla_template *t,
                                          const nabla_ssa_tensor *tensor);
/* `flat`, of rank 1, reshaped to `shape`, which has as many elements, and at
 * most one dynamic dimension, whose size is set. */
nabla_ssa_tensor nabla_ssa_tensor_unflatten(nabla_template *t,
                                            const nabla_ssa_tensor *flat,
                                            const nabla_ssa_tensor *shape);

/* Writes a check that fails at run time unless two sizes (index) are equal. */
void nabla_template_require(nabla_template *t, nabla_ssa a, nabla_ssa b);
/* Writes a check that no divisor is 0; `zeros`, i64, is the number that are. */
void nabla_template_require_divisors(nabla_template *t, nabla_ssa zeros);
/* nabla_template_require for two dimensions; writes nothing if both are static
 * or they are the same. */
void nabla_tensors_agree(nabla_template *t, nabla_ssa_tensor *a, intptr_t a_dim,
                         nabla_ssa_tensor *b, intptr_t b_dim);
/* The same for operands of a linalg.generic: if one of the dimensions is
 * static, the other tensor becomes a slice in which it is static too. */
void nabla_operands_agree(nabla_template *t, nabla_ssa_tensor *a,
                          intptr_t a_dim, nabla_ssa_tensor *b, intptr_t b_dim);

/* Takes operands from `first` on as the sizes of the dynamic dimensions of
 * `tensor`, and requires that none is negative. */
void nabla_template_take_sizes(nabla_template *t, intptr_t first,
                               nabla_ssa_tensor *tensor);

/* Index arithmetic outside of loops. */
nabla_ssa nabla_emit_index(nabla_template *t, int64_t value);

/* A linalg.generic. Zero-initialise, set the loops, add inputs, then the
 * output. */
#define NABLA_GENERIC_MAX   9
#define NABLA_GENERIC_LOOPS (2 * NABLA_MAX_RANK)
typedef struct nabla_generic {
  intptr_t loops, reductions; /* order: parallel, reductions, inner     */
  intptr_t inner;             /* parallel loops inside the reductions   */
  intptr_t count, output;     /* number of operands; index of the output */
  struct {
    nabla_ssa_tensor tensor;
    intptr_t map[NABLA_MAX_RANK]; /* loop of each dimension, or NABLA_AT(n) */
    nabla_ssa element;            /* in the body */
  } operands[NABLA_GENERIC_MAX];
  nabla_ssa result;
} nabla_generic;

/* In a map: the constant index n in place of a loop. */
#define NABLA_AT(n) (-1 - (intptr_t)(n))

/* `map` NULL: dimension i is loop i. */
void nabla_generic_add(nabla_generic *g, const nabla_ssa_tensor *tensor,
                       const intptr_t *map);
void nabla_generic_begin(nabla_template *t, nabla_generic *g);
/* Ends the body with `element`, of the output's type. */
nabla_ssa_tensor nabla_generic_end(nabla_template *t, nabla_generic *g,
                                   nabla_ssa element);
/* The same for two outputs, the last two operands: the caller decrements
 * `output` before nabla_generic_begin. Returns the first output. */
nabla_ssa_tensor nabla_generic_end_two(nabla_template *t, nabla_generic *g,
                                       nabla_ssa element, nabla_ssa second);

/* In a body: the element of operand `index`, converted to its work type. */
nabla_ssa nabla_generic_load(nabla_template *t, const nabla_generic *g,
                             intptr_t index);
/* Convert a value of the element type to the work type (load) and back. */
nabla_ssa nabla_element_load(nabla_template *t, const nabla_element *element,
                             nabla_ssa value);
nabla_ssa nabla_element_store(nabla_template *t, const nabla_element *element,
                              nabla_ssa value);
/* linalg.index: the current index of loop `loop`. */
nabla_ssa nabla_generic_index(nabla_template *t, intptr_t loop);

/* Converts every element to the type `to`: between f16, bf16, f32 and f64, or
 * from a work type to an element type that is computed in it. */
nabla_ssa_tensor nabla_ssa_tensor_convert(nabla_template *t,
                                          nabla_ssa_tensor *tensor,
                                          const nabla_element *to);

/* The f32 constant of these bits. */
nabla_ssa nabla_emit_f32_bits(nabla_template *t, uint32_t bits);

/* How an encoding with a table maps values in [-1, 1] to codes: a value gets
 * the code of the last step whose `from` is <= the value, or `first` if none
 * is. */
#define NABLA_STEPS_MAX 64
typedef struct nabla_code_steps {
  unsigned count;
  uint8_t first;
  struct {
    float from;
    uint8_t code;
  } steps[NABLA_STEPS_MAX];
} nabla_code_steps;

/* Finds the steps by calling the encoding's scalar coder. False if there are
 * more than NABLA_STEPS_MAX. */
bool nabla_code_steps_find(const nabla_encoding *encoding,
                           nabla_code_steps *out);

#endif
