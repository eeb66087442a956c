/* Contractions with batches of a packed weight: a nabla.scan over the batches,
 * whose slices of the weight are a part of its components, so that nothing is
 * decoded, and a contraction without them in it, which is one of rules_dot.c.
 */
#include "transforms/dispatch/rules_batched.h"

#include <mlir-c/BuiltinTypes.h>

#include "dialect/control.h"
#include "dialect/verify/checks.h"
#include "transforms/fused/fused_spec.h"
#include "transforms/ir/ir.h"
#include "transforms/lower/lowering.h"

/* One side: its dimensions with the batches in front, in their order. */
typedef struct side {
  MlirValue value;
  MlirType type, moved, slice; /* as it is; with batches in front; of one */
  intptr_t rank, batches, contracted;
  int64_t order[NABLA_MAX_RANK];       /* of `type`, in `moved` */
  int64_t contracting[NABLA_MAX_RANK]; /* of `moved` */
} side;

static intptr_t place_of(const side *s, int64_t dim) {
  intptr_t place = 0;
  while (s->order[place] != dim) place++;
  return place;
}

/* The type with the dimensions in `order`. */
static MlirType move_dims(const side *s) {
  nabla_strided moved = {s->rank, {0}, {0}, 0};
  bool implicit = nablaTypeIsAImplicit(s->type);
  nabla_strided view = {0};
  if (implicit) view = nabla_implicit_strided(s->type);
  moved.offset = view.offset;
  for (intptr_t i = 0; i < s->rank; i++) {
    moved.shape[i] = nabla_array_dim(s->type, (intptr_t)s->order[i]);
    moved.strides[i] = view.strides[s->order[i]];
  }
  return implicit ? nabla_implicit_with_view(s->type, &moved)
                  : mlirRankedTensorTypeGet(s->rank, moved.shape,
                                            nabla_array_element(s->type),
                                            (MlirAttribute){NULL});
}

static MlirType dense_slice(MlirType whole) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(whole);
  for (intptr_t i = 1; i < rank; i++) shape[i - 1] = nabla_array_dim(whole, i);
  return mlirRankedTensorTypeGet(rank - 1, shape, nabla_array_element(whole),
                                 (MlirAttribute){NULL});
}

static side side_of(MlirOperation op, intptr_t operand) {
  side s = {.value = mlirOperationGetOperand(op, operand)};
  s.type = mlirValueGetType(s.value);
  s.rank = nabla_array_rank(s.type);
  s.batches =
      nabla_op_integers(op, operand ? "rhs_batching" : "lhs_batching", s.order);
  intptr_t at = s.batches;
  for (intptr_t d = 0; d < s.rank; d++) {
    bool in_front = false;
    for (intptr_t i = 0; i < s.batches; i++) in_front |= s.order[i] == d;
    if (!in_front) s.order[at++] = d;
  }
  s.contracted = nabla_op_integers(
      op, operand ? "rhs_contracting" : "lhs_contracting", s.contracting);
  for (intptr_t i = 0; i < s.contracted; i++)
    s.contracting[i] = place_of(&s, s.contracting[i]);
  s.moved = move_dims(&s);
  return s;
}

/* Every batch of the weight is a part of its components. */
static bool has_slices(const side *w) {
  MlirType type = w->moved;
  for (intptr_t i = 0; i < w->batches; i++) {
    nabla_slices unused;
    MlirType slice = nabla_slice_type(type);
    if (mlirTypeIsNull(slice) || !nabla_slices_find(type, slice, &unused))
      return false;
    type = slice;
  }
  return true;
}

static const char *objection_to(const side *w, const side *x) {
  nabla_fused_spec spec;
  MlirType element = nabla_array_element(x->type);
  int64_t rows = 1;
  for (intptr_t i = w->batches; i < w->rank; i++) {
    bool contracted = false;
    for (intptr_t c = 0; c < w->contracted; c++)
      contracted |= w->contracting[c] == i;
    if (!contracted && nabla_array_dim(w->moved, i) > 1) rows = 2;
  }
  if (rows < 2) return "a batch of the weight has one row";
  for (intptr_t i = 0; i < w->batches; i++)
    if (nabla_array_dim(w->moved, i) == 0) return "there is no batch";
  if (!mlirTypeIsAF32(element) && !mlirTypeIsAF16(element) &&
      !mlirTypeIsABF16(element))
    return "kernels compute in f32, f16 and bf16";
  const char *why = nabla_fused_weight_of(w->type, 0, &spec);
  if (!why && !has_slices(w))
    why =
        "batches of the weight do not begin with whole blocks, one behind "
        "the other";
  return why;
}

/* "%NAME = nabla.transpose ...", or nothing where no dimension moves. */
static const char *add_moved(nabla_text *text, const side *s, const char *from,
                             const char *to) {
  bool moves = false;
  for (intptr_t i = 0; i < s->rank; i++) moves |= s->order[i] != i;
  if (!moves) return from;
  nabla_text_add(text, "  %s = nabla.transpose %s permutation = [", to, from);
  for (intptr_t i = 0; i < s->rank; i++)
    nabla_text_add(text, "%s%d", i ? ", " : "", (int)s->order[i]);
  nabla_text_add(text, "] : ");
  nabla_text_add_type(text, s->type);
  nabla_text_add(text, "\n");
  return to;
}

static void add_places(nabla_text *text, intptr_t count, const int64_t *places,
                       int64_t less) {
  nabla_text_add(text, "[");
  for (intptr_t i = 0; i < count; i++)
    nabla_text_add(text, "%s%d", i ? ", " : "", (int)(places[i] - less));
  nabla_text_add(text, "]");
}

/* %nI for each size of a slice of the result that is not known, and their list:
 * they are those of x that are free. Sizes of batches are known from the
 * weight. */
static void add_sizes(nabla_text *text, const side *x, const char *name,
                      nabla_text *list) {
  for (intptr_t i = x->batches; i < x->rank; i++) {
    bool contracted = false;
    for (intptr_t c = 0; c < x->contracted; c++)
      contracted |= x->contracting[c] == i;
    if (contracted || !nabla_is_dynamic(nabla_array_dim(x->moved, i))) continue;
    nabla_text_add(text,
                   "  %%i%d = arith.constant %d : index\n"
                   "  %%n%d = tensor.dim %s, %%i%d : ",
                   (int)i, (int)i, (int)i, name, (int)i);
    nabla_text_add_type(text, x->moved);
    nabla_text_add(text, "\n");
    nabla_text_add(list, "%s%%n%d", list->size ? ", " : "", (int)i);
  }
}

/* The contraction of the slices %a and %b. */
static void add_body(nabla_text *text, const side sides[2], MlirType result) {
  static const int64_t places[NABLA_MAX_RANK] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
  intptr_t batches = sides[0].batches - 1;
  nabla_text_add(text, "  ^bb0(%%a: ");
  nabla_text_add_type(text, sides[0].slice);
  nabla_text_add(text, ", %%b: ");
  nabla_text_add_type(text, sides[1].slice);
  nabla_text_add(text, "):\n  %%p = nabla.dot_general %%a, %%b ");
  for (int i = 0; i < 2 && batches; i++) {
    nabla_text_add(text, "%s", i ? " x " : "batching = ");
    add_places(text, batches, places, 0);
  }
  for (int i = 0; i < 2; i++) {
    nabla_text_add(text, "%s", i ? " x " : " contracting = ");
    add_places(text, sides[i].contracted, sides[i].contracting, 1);
  }
  nabla_text_add(text, " : ");
  nabla_text_add_type(text, sides[0].slice);
  nabla_text_add(text, ", ");
  nabla_text_add_type(text, sides[1].slice);
  nabla_text_add(text, "\n  nabla.yield %%p : ");
  nabla_text_add_type(text, dense_slice(result));
  nabla_text_add(text, "\n  }\n");
}

static void add_scan(nabla_text *text, const side sides[2],
                     const char *const names[2], const nabla_text *sizes,
                     MlirType result) {
  nabla_text_add(text, "  %%y = nabla.scan over(%s, %s : ", names[0], names[1]);
  nabla_text_add_type(text, sides[0].moved);
  nabla_text_add(text, ", ");
  nabla_text_add_type(text, sides[1].moved);
  nabla_text_add(text, ")");
  if (sizes->size) nabla_text_add(text, " sizes(%s)", sizes->data);
  nabla_text_add(text, " attributes {" NABLA_OF_DOT "} -> ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, " {\n");
  add_body(text, sides, result);
  nabla_text_add(text, "  return %%y : ");
  nabla_text_add_type(text, result);
  nabla_text_add(text, "\n}\n");
}

static bool replace(MlirOperation op, const side sides[2], intptr_t weight) {
  nabla_text text = {0}, sizes = {0};
  MlirType result = nabla_result_type(op, 0);
  nabla_text_add(&text, "func.func @t(%%l: ");
  nabla_text_add_type(&text, sides[0].type);
  nabla_text_add(&text, ", %%r: ");
  nabla_text_add_type(&text, sides[1].type);
  nabla_text_add(&text, ") -> ");
  nabla_text_add_type(&text, result);
  nabla_text_add(&text, " {\n");
  const char *const names[2] = {add_moved(&text, &sides[0], "%l", "%lhs"),
                                add_moved(&text, &sides[1], "%r", "%rhs")};
  add_sizes(&text, &sides[1 - weight], names[1 - weight], &sizes);
  add_scan(&text, sides, names, &sizes, result);
  text.failed |= sizes.failed;
  const MlirValue operands[2] = {sides[0].value, sides[1].value};
  bool done = nabla_template_replace(op, 2, operands, &text);
  nabla_text_deinit(&text);
  nabla_text_deinit(&sizes);
  return done;
}

nabla_rule_outcome nabla_dot_by_batch(MlirOperation op, intptr_t weight,
                                      const char **why) {
  side sides[2] = {side_of(op, 0), side_of(op, 1)};
  side *w = &sides[weight], *x = &sides[1 - weight];
  *why = objection_to(w, x);
  if (*why) return NABLA_RULE_DECLINED;
  w->slice = nabla_slice_type(w->moved);
  x->slice = dense_slice(x->moved);
  return replace(op, sides, weight) ? NABLA_RULE_APPLIED : NABLA_RULE_FAILED;
}
