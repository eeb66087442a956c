/* Derivatives of functions: functions that are made from functions
 * (nabla/function.h). Part of libnabla.
 *
 *   nabla_function *loss, *step;          // loss(params, x, y) gives a scalar
 *   ...
 *   if (nabla_value_and_grad(loss, NULL, &step, &diag)) ...
 *   nabla_tree items[3] = {nabla_tree_of_struct(&mlp_layout, &params),
 *                          nabla_tree_of_array(x), nabla_tree_of_array(y)};
 *   nabla_tree in = nabla_tree_of_list(3, items);
 *   nabla_tree results[2] = {nabla_tree_of_array(NULL),
 *                            nabla_tree_of_struct(&mlp_layout, &gradients)};
 *   nabla_tree out = nabla_tree_of_list(2, results);
 *   if (nabla_function_call(step, &in, &out, &diag)) ...
 *
 * What is made is a function as any other: it is traced once for each signature
 * and may be called while another function is traced, and be the argument of
 * another function of this header. It borrows the function that it is made
 * from, which must outlive it.
 *
 * Gradients have the dtype and shape of what they belong to; those of a number
 * without a dtype (nabla_scalar) are f64. What a gradient is taken of is dense
 * and of floats. A packed array has no gradient: keep a dense master and pass
 * it through nabla_quantize, train adapters beside it (nabla_lora_init), or
 * decode a copy with nabla_materialize and pass the copy.
 *
 * Trees of gradients, cotangents and tangents have the leaves of what they
 * belong to: the same names in the same order. A struct may stand for fields of
 * these names, or the reverse. */
#ifndef NABLA_DERIVATIVE_H
#define NABLA_DERIVATIVE_H

#include "nabla/function.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a jacobian is made: a column for each element of what it is taken of, a
 * row for each element of the results, or whichever are fewer. */
typedef enum nabla_jacobian_mode {
  NABLA_JACOBIAN_AUTO,
  NABLA_JACOBIAN_FORWARD,
  NABLA_JACOBIAN_REVERSE,
} nabla_jacobian_mode;

/* Options of a derivative. Members that are 0 or NULL are defaults; all is
 * copied. */
typedef struct nabla_derivative_options {
  size_t struct_size; /* sizeof(nabla_derivative_options) */
  /* What the derivative is taken of: names of arguments. A name stands for a
   * leaf or for the tree of all leaves below it: "0", "0.layers.1.w", "x"; ""
   * for all arguments. Without names, and without `captured`, it is the first
   * item of a list, and all of another tree. */
  const char *const *wrt;
  size_t wrt_count;
  /* Arrays from outside that the callback uses. The new function holds them. */
  nabla_array *const *captured;
  size_t captured_count;
  /* nabla_grad, nabla_value_and_grad: the function gives a list of two, the
   * value and results that have no derivative. */
  int has_aux;
  /* nabla_grad, nabla_value_and_grad, nabla_vjp: a run in which a gradient is
   * not finite fails, and names the function and the argument. */
  int check_finite;
  /* nabla_jacobian: the mode, and a tree of the structure that the function
   * gives, whose names and layouts must outlive the new function; NULL: one
   * array. */
  nabla_jacobian_mode mode;
  const nabla_tree *results;
  /* Options of the new function, NULL: its name is that of the function with
   * that of the derivative, "f.grad"; `self` is not used. */
  const nabla_function_options *function;
} nabla_derivative_options;

/* All functions below:
 * @param options  NULL for the defaults
 * @param out      the caller's, to destroy before `function`
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  an argument that is NULL; a struct_size of
 *                                 another version; a name that is NULL
 *         NABLA_UNSUPPORTED       an option that this derivative does not have
 *         NABLA_NO_MEMORY
 * Thread-safe. A call of the new function fails with NABLA_INVALID_ARGUMENT for
 * a name that no argument has, or that two entries have; an argument that is no
 * dense array of floats; a captured array that the callback does not use; trees
 * of other leaves; and for what each function says. */

/* The gradients of a function that gives one float of rank 0. They are the
 * tree of the one name or captured array that the options have, or a list of
 * those of each, names first. With `has_aux` the result is a list: the
 * gradients, and the other results. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_grad(nabla_function *function, const nabla_derivative_options *options,
           nabla_function **out, nabla_diag *diag);

/* The same with the value: a list of the results of the function, and the
 * gradients. */
NABLA_API NABLA_MUST_USE nabla_status nabla_value_and_grad(
    nabla_function *function, const nabla_derivative_options *options,
    nabla_function **out, nabla_diag *diag);

/* A function with its derivative in reverse mode. Arguments are a list: those
 * of the function, and a cotangent of each result that is of floats, whose tree
 * has the leaves of these results. The result is a list: the results of the
 * function, and the gradients. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_vjp(nabla_function *function, const nabla_derivative_options *options,
          nabla_function **out, nabla_diag *diag);

/* A function with its derivative in forward mode. Arguments are a list: those
 * of the function, and a tangent of each array that the options name, whose
 * tree has the leaves that a tree of gradients has. The result is a list: the
 * results of the function, and a tangent of each result that has floats. If the
 * caller passes nabla_tree_of_open(NULL) for the tangents, the call makes their
 * tree. It has the form of the results' tree, with NABLA_TREE_NONE in place of
 * integers and truth values, and lives until `out` is destroyed. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_jvp(nabla_function *function, const nabla_derivative_options *options,
          nabla_function **out, nabla_diag *diag);

/* The derivative of each element of the results, which are of floats, with
 * respect to each element of what the options name. Its leaves are those of the
 * gradients, for each result in order: names have that of the result in front.
 * A leaf has the shape of the result, then that of the argument. Their sizes
 * must be known. */
NABLA_API NABLA_MUST_USE nabla_status nabla_jacobian(
    nabla_function *function, const nabla_derivative_options *options,
    nabla_function **out, nabla_diag *diag);

/* The second derivatives of a function that gives one float of rank 0: the
 * jacobian of its gradients, in forward mode. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_hessian(nabla_function *function, const nabla_derivative_options *options,
              nabla_function **out, nabla_diag *diag);

/* ---- derivatives of one's own ----
 *
 * They are used wherever the function is differentiated, also within others:
 * its calls are kept as calls until then. Arrays from outside that its callback
 * uses get no gradient: packed arrays and numbers that it makes (nabla_scalar)
 * may be used, other arrays of floats are refused. */

/* A function whose cotangent passes as it is from the first result to the first
 * argument, whatever it does; both are of floats, of one shape, and the result
 * may be packed. Other arguments get none. Returns as above. */
NABLA_API NABLA_MUST_USE nabla_status nabla_straight_through(
    nabla_function *function, nabla_function **out, nabla_diag *diag);

/* Gives a function, before it is used, the derivative in reverse mode that two
 * functions compute, which must outlive it.
 * @param forward   of its arguments: a list of its results, and of a list of
 *                  arrays that are saved
 * @param backward  of a list: the list of these arrays, and a list of the
 *                  cotangents of the results that are of floats, in order. It
 *                  gives a list: a cotangent of each argument that is dense and
 *                  of floats
 * @param saved_count  the number of arrays that are saved
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  NULL; functions of another engine
 *         NABLA_NO_MEMORY
 * A call fails with NABLA_INVALID_ARGUMENT if the parts do not fit. Not to be
 * called while another thread uses the function. */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_set_vjp(
    nabla_function *function, nabla_function *forward, nabla_function *backward,
    size_t saved_count, nabla_diag *diag);
/* The same in forward mode.
 * @param jvp  of a list: the arguments, and a list of a tangent for each that
 * is dense and of floats. It gives a list: the results, and a list of a tangent
 * for each that is of floats */
NABLA_API NABLA_MUST_USE nabla_status nabla_function_set_jvp(
    nabla_function *function, nabla_function *jvp, nabla_diag *diag);

/* ---- batches ---- */

/* The axis of an array that is the same for all examples. */
#define NABLA_NO_AXIS INT64_MIN

/* The axis of the batch in an array, or in all arrays of a tree, by name; from
 * the end if it is negative. */
typedef struct nabla_axis {
  const char *name; /* as in nabla_derivative_options.wrt; "": all */
  int64_t axis;
} nabla_axis;

/* Options of a batch. Members that are 0 or NULL are defaults; all is copied.
 */
typedef struct nabla_vmap_options {
  size_t struct_size; /* sizeof(nabla_vmap_options) */
  /* Arrays that no entry names have axis 0; of several entries that name an
   * array the last counts. */
  const nabla_axis *in, *out;
  size_t in_count, out_count;
  int64_t size; /* the number of examples, 0: that of the arguments */
  /* As in nabla_derivative_options; its name is "f.vmap". */
  const nabla_function_options *function;
} nabla_vmap_options;

/* A function that applies another one to each of several examples. Arguments
 * and results have a dimension more, but for those whose axis is NABLA_NO_AXIS;
 * a packed argument stays packed, and has axis 0. Captured arrays are the same
 * for all examples.
 * @param options  NULL for the defaults
 * @param out      the caller's, to destroy before `function`
 * @return as above. A call fails with NABLA_INVALID_ARGUMENT for an axis that
 * an array does not have, sizes that differ, no batch at all, and a result that
 * differs by example but has NABLA_NO_AXIS */
NABLA_API NABLA_MUST_USE nabla_status
nabla_vmap(nabla_function *function, const nabla_vmap_options *options,
           nabla_function **out, nabla_diag *diag);

/* ---- adapters ----
 *
 * Two dense factors beside a weight w of shape N x K that is not trained,
 * packed or dense: a, of shape R x K, and b, of shape N x R. The weight stands
 * for w + scale b a, and y = x w^T for
 *
 *   nabla_add(nabla_linear(x, w, nabla_none()),
 *             nabla_mul(nabla_linear(nabla_linear(x, a, nabla_none()), b,
 *                                    nabla_none()), nabla_scalar(s, scale)))
 *
 * in which w stays packed, forward and backward. */

/* Makes the factors of `w`, of its dtype: a is of the normal distribution with
 * a standard deviation of 1 / sqrt(K), drawn by `seed` (nabla_normal), and b is
 * 0, so that the weight stands for itself.
 * @param rank  1 to the smaller size of w
 * @param out_a, out_b  are written: with NULL after a failure of the scope */
NABLA_API void nabla_lora_init(nabla_array *w, nabla_array *seed, int64_t rank,
                               nabla_array **out_a, nabla_array **out_b);
/* w + scale b a, dense: of a packed w, of its decoded values. nabla_quantize
 * packs it again. NULL after a failure. */
NABLA_API nabla_array *nabla_lora_merge(nabla_array *w, nabla_array *a,
                                        nabla_array *b, double scale);
/* w - scale b a: what was merged, but for the rounding of the two sums. */
NABLA_API nabla_array *nabla_lora_unmerge(nabla_array *w, nabla_array *a,
                                          nabla_array *b, double scale);

#ifdef __cplusplus
}
#endif

/* nabla/here.h */
#ifdef NABLA_HAS_HERE
#define nabla_lora_init(...)    NABLA_HERE_VOID(nabla_lora_init(__VA_ARGS__))
#define nabla_lora_merge(...)   NABLA_HERE(nabla_lora_merge(__VA_ARGS__))
#define nabla_lora_unmerge(...) NABLA_HERE(nabla_lora_unmerge(__VA_ARGS__))
#endif

#endif
