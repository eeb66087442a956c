/* Index folding: a sum is a root plus a constant, so that the constant becomes
 * the displacement of an address and the root is computed once (x[i + 16] is 64
 * bytes behind x[i]). LLVM finds that too, in more time. */
#include <inttypes.h>

#include "lib/kernels/builder/k.h"

#define DISPLACEMENT_MAX ((uint64_t)INT32_MAX)

/* A value is `root` + `constant`; root 0: it is the constant. */
typedef struct sum {
  nabla_ssa root;
  uint64_t constant;
} sum;

static sum split(const nabla_emitter *e, nabla_ssa value) {
  if (!e->sums) return (sum){value, 0};
  const nabla_known_sum *known = &e->sums->of[value % NABLA_MADE_MAX];
  if (known->value != value) return (sum){value, 0};
  return (sum){known->root, known->constant};
}

static nabla_ssa note(nabla_emitter *e, nabla_ssa value, sum is) {
  if (e->sums)
    e->sums->of[value % NABLA_MADE_MAX] =
        (nabla_known_sum){value, is.root, is.constant};
  return value;
}

nabla_ssa nabla_emit_i64(nabla_emitter *e, uint64_t value) {
  nabla_ssa result =
      k_op(e, "arith.constant %" PRId64 " : i64", (int64_t)value);
  return note(e, result, (sum){0, value});
}

static nabla_ssa make(nabla_emitter *e, char kind, nabla_ssa a, nabla_ssa b) {
  switch (kind) {
    case '+':
      return k_op(e, "arith.addi %%v%u, %%v%u overflow<nsw, nuw> : i64", a, b);
    case '*':
      return k_op(e, "arith.muli %%v%u, %%v%u overflow<nsw, nuw> : i64", a, b);
    case '/':
      return k_op(e, "arith.divui %%v%u, %%v%u : i64", a, b);
    default:
      return k_op(e,
                  "llvm.getelementptr %%v%u[%%v%u] : (!llvm.ptr, i64) -> "
                  "!llvm.ptr, i8",
                  a, b);
  }
}

/* The result of an operation of two values, which is written on first use. */
static nabla_ssa once(nabla_emitter *e, char kind, nabla_ssa a, nabla_ssa b) {
  if (!e->sums) return make(e, kind, a, b);
  nabla_made *made =
      &e->sums->made[(a * 31 + b * 7 + (unsigned char)kind) % NABLA_MADE_MAX];
  if (made->value && made->kind == kind && made->a == a && made->b == b)
    return made->value;
  const nabla_ssa value = make(e, kind, a, b);
  *made = (nabla_made){kind, a, b, value};
  return value;
}

void nabla_emit_leave(nabla_emitter *e) {
  for (unsigned i = 0; e->sums && i < NABLA_MADE_MAX; i++)
    e->sums->made[i].value = 0;
}

static nabla_ssa sum_of(nabla_emitter *e, sum is) {
  if (!is.root) return k_i64(e, is.constant);
  if (!is.constant) return is.root;
  nabla_ssa constant = k_i64(e, is.constant);
  return note(e, once(e, '+', is.root, constant), is);
}

nabla_ssa nabla_emit_add(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  const sum x = split(e, a), y = split(e, b);
  sum is = {x.root ? x.root : y.root, x.constant + y.constant};
  if (x.root && y.root) is.root = once(e, '+', x.root, y.root);
  return sum_of(e, is);
}

nabla_ssa nabla_emit_add_constant(nabla_emitter *e, nabla_ssa a, uint64_t b) {
  if (!b) return a;
  sum is = split(e, a);
  is.constant += b;
  return sum_of(e, is);
}

nabla_ssa nabla_emit_multiply(nabla_emitter *e, nabla_ssa a, uint64_t b) {
  if (b == 1) return a;
  sum is = split(e, a);
  is.constant *= b;
  if (is.root) is.root = once(e, '*', is.root, k_i64(e, b));
  return sum_of(e, is);
}

nabla_ssa nabla_emit_divide(nabla_emitter *e, nabla_ssa a, uint64_t b) {
  if (b == 1) return a;
  sum is = split(e, a);
  if (is.constant % b)
    is = (sum){a, 0}; /* only a multiple of `b` stays apart */
  is.constant /= b;
  if (is.root) is.root = once(e, '/', is.root, k_i64(e, b));
  return sum_of(e, is);
}

nabla_ssa nabla_emit_address(nabla_emitter *e, nabla_ssa base,
                             nabla_ssa bytes) {
  const sum from = split(e, base), by = split(e, bytes);
  sum is = {from.root, from.constant + by.constant};
  if (is.constant > DISPLACEMENT_MAX) return make(e, '@', base, bytes);
  if (by.root) is.root = once(e, '@', from.root, by.root);
  if (!is.constant) return is.root;
  nabla_ssa result =
      k_op(e, "llvm.getelementptr %%v%u[%u] : (!llvm.ptr) -> !llvm.ptr, i8",
           is.root, (unsigned)is.constant);
  return note(e, result, is);
}
