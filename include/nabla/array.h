/* Lazy arrays: functions that record operations, which are compiled together
 * when a value is needed. Part of libnabla, which needs LLVM and MLIR 22.
 *
 *   nabla_scope *scope;
 *   if (nabla_scope_create(engine, &scope, &diag)) ...
 *   nabla_array *x = nabla_array_of(scope, &input);
 *   nabla_array *y = nabla_tanh(nabla_mul(x, nabla_scalar(scope, 0.5)));
 *   nabla_dense value;
 *   if (nabla_array_read(y, &value, &diag)) ...
 *   nabla_scope_end(scope);
 *
 * An array is *pending* until it is realized: it has a shape and a dtype, and
 * its value is a graph of operations. nabla_realize compiles the operations
 * that are needed to one function, or finds it in its engine: graphs that are
 * equal but for the data of their leaves share a function. An array that was
 * made from data, or realized, is a leaf of later graphs.
 *
 * Errors. A function that records returns NULL if it fails, and if it gets a
 * NULL array; nabla_scope_status has the first failure. A chain of operations
 * needs one check at its end.
 *
 * Threads. A scope belongs to the thread that made it: no other thread may
 * record, realize or read in it. A realized array may be used by all threads,
 * and every thread may retain and release any array. */
#ifndef NABLA_ARRAY_H
#define NABLA_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/comm.h"
#include "nabla/compiler.h"
#include "nabla/environment.h"
#include "nabla/executable.h"
#include "nabla/here.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- engines ---- */

/* A cache of compiled graphs, with compilers. Any number of scopes, on any
 * threads, may share an engine. */
typedef struct nabla_engine nabla_engine;

/* Options of an engine. Members that are 0 or NULL are defaults. */
typedef struct nabla_engine_options {
  size_t struct_size; /* sizeof(nabla_engine_options) */
  /* Programs that are kept; 0: 1024. Beyond either bound the least recently
   * used ones are freed. */
  size_t max_programs;
  /* Bytes of the programs that are kept: machine code and descriptions; 0:
   * 256 MiB. */
  uint64_t max_bytes;
  /* Compilations at the same time; 0: 2. */
  uint32_t compilers;
  /* Of the compilers and of all programs. The structures are copied; texts in
   * them must outlive the engine. */
  const nabla_compiler_options *compiler;
  const nabla_compile_options *compile;
  /* Of programs on a mesh (nabla/shard.h), whose processes are its devices
   * (nabla_comm_mpi); it must outlive the engine. NULL: the devices are threads
   * of this process. */
  nabla_comm *comm;
} nabla_engine_options;

/* Counts since an engine was created, and its present size. */
typedef struct nabla_engine_statistics {
  size_t struct_size; /* sizeof(nabla_engine_statistics), set by the caller */
  uint64_t hits;      /* realizations whose program was there */
  uint64_t misses;    /* programs that were compiled          */
  uint64_t evictions; /* programs that were freed for others  */
  uint64_t programs;  /* that are kept now                    */
  uint64_t bytes;     /* of these                             */
  double compile_ms;  /* spent on all misses                  */
  /* Sums of nabla_compile_report (nabla/compiler.h) over all misses. */
  uint64_t materializations, rules, declined, fused;
} nabla_engine_statistics;

/* Creates an engine.
 * @param options      NULL for the defaults
 * @param environment  NULL, or allocator and pool, which must outlive the
 *                     engine and every array that was made with it
 * @param out          the caller's, to destroy
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a struct_size of another version
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_engine_create(
    const nabla_engine_options *options, const nabla_environment *environment,
    nabla_engine **out, nabla_diag *diag);
/* Frees an engine, whose scopes must have ended. Arrays that the user holds
 * stay valid. NULL is allowed. */
NABLA_API void nabla_engine_destroy(nabla_engine *engine);
/* Writes `out`.
 * @return NABLA_OK, or NABLA_INVALID_ARGUMENT for a struct_size of another
 *         version
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_engine_count(
    nabla_engine *engine, nabla_engine_statistics *out, nabla_diag *diag);

/* ---- scopes ---- */

/* The place where a thread records: it holds a reference to every array made
 * in it until it ends. */
typedef struct nabla_scope nabla_scope;

/* A value of one dtype and shape. The functions that record return an array
 * that the scope holds: a caller need not free it. */
typedef struct nabla_array nabla_array;

/* Makes a scope and enters it: until it ends, or another is made, operations of
 * this thread are recorded in it. Scopes of a thread are nested: the one that
 * was made last ends first.
 * @param out  ended by the caller with nabla_scope_end
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  the thread is in a scope of another engine
 *         NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status nabla_scope_create(nabla_engine *engine,
                                                         nabla_scope **out,
                                                         nabla_diag *diag);
/* Ends a scope, and those inside it that have not ended. Arrays that the user
 * retained stay if they are realized; pending ones lose their value, and
 * realizing them is an error. A failure that nabla_scope_status would have told
 * becomes that of the scope around it. NULL is allowed. */
NABLA_API void nabla_scope_end(nabla_scope *scope);
/* Returns the status of the first failure in a scope, NABLA_OK if there was
 * none or `scope` is NULL, and copies it to `diag`, which may be NULL: `what`
 * has the operation with the dtypes and shapes of its operands, `file` the
 * place of the call: file and line in files that are compiled without NDEBUG,
 * otherwise program and offset (nabla/here.h). With NABLA_OK `diag` is not
 * touched. */
NABLA_API nabla_status nabla_scope_status(const nabla_scope *scope,
                                          nabla_diag *diag);
/* Sets the policy of programs that are compiled from here on for this scope,
 * and for those that are made inside it: "off", "warn" or "error", what happens
 * if packed arrays are decoded because no rule takes an operation. NULL: that
 * of the engine's compile options, whose default is NABLA_POLICY in the
 * environment.
 * @return NABLA_OK, or NABLA_INVALID_ARGUMENT for NULL and other texts */
NABLA_API NABLA_MUST_USE nabla_status nabla_scope_set_policy(nabla_scope *scope,
                                                             const char *policy,
                                                             nabla_diag *diag);
/* Forgets the failure. */
NABLA_API void nabla_scope_clear(nabla_scope *scope);
/* Makes every operation that is recorded from here on, in this scope and in
 * those that are made inside it, be realized at once, or ends that: the results
 * are the same, each operation is a program of its own. For debugging; traces
 * (nabla/function.h) are recorded as always. */
NABLA_API void nabla_scope_set_eager(nabla_scope *scope, int is_eager);

/* ---- references ---- */

/* Adds a reference of the user, and returns the array. What is realized
 * together with a pending array that the user holds realizes it as well. */
NABLA_API nabla_array *nabla_retain(nabla_array *array);
/* Takes away a reference of the user; if there is none, that of the scope. The
 * array is freed with its last reference, and must not be used after that, nor
 * after the scope's was taken away; nabla_engine_create_debug finds such uses.
 * NULL is allowed. */
NABLA_API void nabla_release(nabla_array *array);
/* Makes `outer`, a scope around that of the array, hold it. Returns the array;
 * NULL if it is NULL, or `outer` is not around its scope. */
NABLA_API nabla_array *nabla_keep(nabla_array *array, nabla_scope *outer);

/* ---- creation ---- */

/* A leaf with a copy of `value`. */
NABLA_API nabla_array *nabla_array_of(nabla_scope *scope,
                                      const nabla_dense *value);
/* A leaf that is `value` itself: its memory is never written, and must stay
 * unchanged as long as an array that was made from it is pending, and as long
 * as this array is referenced. */
NABLA_API nabla_array *nabla_array_borrow(nabla_scope *scope,
                                          const nabla_dense *value);
/* Leaves of rank 0 without a dtype of their own: combined with an array of
 * floats they take its dtype; an integer takes that of any number. Alone, or
 * with integers, a scalar is f32, and an integer i32. Their values are
 * arguments of the compiled function: another value compiles nothing. */
NABLA_API nabla_array *nabla_scalar(nabla_scope *scope, double value);
NABLA_API nabla_array *nabla_integer(nabla_scope *scope, int64_t value);
/* A constant of the program that is compiled, which other values compile anew:
 * for small tables that the compiler should know. */
NABLA_API nabla_array *nabla_constant(nabla_scope *scope,
                                      const nabla_dense *value);

/* A leaf that is a weight itself, such as `desc` of what nabla_model_find
 * gives: packed values stay packed, as they lie. The components must stay as
 * long as an array that was made from it is pending, and as long as this array
 * is referenced. Operations take packed arrays as docs/DIALECT.md says;
 * compiled functions get their components, and decode while they compute where
 * they can. */
NABLA_API nabla_array *nabla_array_of_weight(nabla_scope *scope,
                                             const nabla_weight_desc *weight);

/* ---- values ---- */

/* Whether an array is packed: its values have the dtype that nabla_array_dense
 * shows, but are stored as codes and scales. */
NABLA_API int nabla_array_is_packed(const nabla_array *array);
/* Realizes a packed array and writes its description to `out`; the components
 * belong to the array.
 * A slice of whole blocks has the components of the blocks.
 * @return as nabla_array_read; NABLA_INVALID_ARGUMENT for an array that is not
 *         packed; NABLA_UNSUPPORTED for another view, such as a transpose */
NABLA_API NABLA_MUST_USE nabla_status nabla_array_weight(nabla_array *array,
                                                         nabla_weight_desc *out,
                                                         nabla_diag *diag);

/* Returns dtype, rank and shape. `data` is NULL while the array is pending, and
 * then lives as long as the array; of pieces (nabla/shard.h) it stays NULL, and
 * nabla_array_read gathers them. NULL for NULL. */
NABLA_API const nabla_dense *nabla_array_dense(const nabla_array *array);
/* Computes the values of `count` arrays, in one run of one compiled function.
 * Arrays that are realized are left as they are. A NULL array is an error,
 * whose cause is the first failure of the scope.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a NULL array without such a failure; an array
 *                                 of another scope that is pending, or whose
 *                                 scope has ended
 *         and the status of recording, compiling and running */
NABLA_API NABLA_MUST_USE nabla_status nabla_realize(nabla_scope *scope,
                                                    size_t count,
                                                    nabla_array *const *arrays,
                                                    nabla_diag *diag);
/* Realizes an array and writes its value to `out`, whose data belongs to the
 * array. What nabla_scalar and nabla_integer give is read as f64 and i64.
 * @return as nabla_realize; NABLA_INVALID_ARGUMENT for a NULL array, with the
 *         first failure of the innermost scope of this thread, and for a packed
 *         array */
NABLA_API NABLA_MUST_USE nabla_status nabla_array_read(nabla_array *array,
                                                       nabla_dense *out,
                                                       nabla_diag *diag);

/* ---- operations ----
 *
 * lib/array/operations.def has a row for each, in the order of this header. All
 * return a new array in the innermost scope of the calling thread; those that
 * take a scope, in that scope. Operands are broadcast as NumPy's are, and
 * converted to one dtype: docs/ARRAYS.md has the table. Dimensions below 0
 * count from the end. docs/DIALECT.md defines each operation.
 *
 * A list of dimensions or sizes is given by its length and values, which the
 * call copies: nabla_sum(x, NABLA_DIMS(0, -1), 0). In a reduction, flip and
 * squeeze NABLA_ALL_DIMS stands for all dimensions. */
#define NABLA_DIMS(...)                                                 \
  (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
      (const int64_t[]) {                                               \
    __VA_ARGS__                                                         \
  }
#define NABLA_ALL_DIMS 0, NULL

/* The place of an operand that is optional and absent, where a function says
 * that it may be. Not NULL: that is an operand that could not be made. */
NABLA_API nabla_array *nabla_none(void);

/* Arrays of one number. `value` is one of the dtype: not 0.5 as an integer. */
NABLA_API nabla_array *nabla_zeros(nabla_scope *scope, nabla_dtype dtype,
                                   uint32_t count, const int64_t *shape);
NABLA_API nabla_array *nabla_ones(nabla_scope *scope, nabla_dtype dtype,
                                  uint32_t count, const int64_t *shape);
NABLA_API nabla_array *nabla_full(nabla_scope *scope, nabla_dtype dtype,
                                  uint32_t count, const int64_t *shape,
                                  double value);
/* The same with dtype and shape of x, whose values do not count. */
NABLA_API nabla_array *nabla_zeros_like(nabla_array *x);
NABLA_API nabla_array *nabla_ones_like(nabla_array *x);
NABLA_API nabla_array *nabla_full_like(nabla_array *x, double value);

/* The index along `dim`. */
NABLA_API nabla_array *nabla_iota(nabla_scope *scope, nabla_dtype dtype,
                                  uint32_t count, const int64_t *shape,
                                  int64_t dim);
/* start, start + step, ... below `stop`, above it if step is negative. */
NABLA_API nabla_array *nabla_arange(nabla_scope *scope, nabla_dtype dtype,
                                    double start, double stop, double step);
/* 1 where the last index is at most the one before + diagonal, else 0. */
NABLA_API nabla_array *nabla_tri(nabla_scope *scope, nabla_dtype dtype,
                                 uint32_t count, const int64_t *shape,
                                 int64_t diagonal);
/* The identity matrix. */
NABLA_API nabla_array *nabla_eye(nabla_scope *scope, nabla_dtype dtype,
                                 int64_t size);
/* (1 - cos(2 pi i / n)) / 2, n being the size, or if not `periodic` the size
 * less 1. */
NABLA_API nabla_array *nabla_hann_window(nabla_scope *scope, nabla_dtype dtype,
                                         int64_t size, int periodic);
/* Random numbers by Philox 4x32-10, which depend only on the seed (an integer
 * of rank 0), shape and dtype: in [0, 1), or of the normal distribution. */
NABLA_API nabla_array *nabla_uniform(nabla_array *seed, nabla_dtype dtype,
                                     uint32_t count, const int64_t *shape);
NABLA_API nabla_array *nabla_normal(nabla_array *seed, nabla_dtype dtype,
                                    uint32_t count, const int64_t *shape);

/* Element by element. Integers become f32, except in abs, neg, sign and not. */
NABLA_API nabla_array *nabla_abs(nabla_array *x);
NABLA_API nabla_array *nabla_neg(nabla_array *x);
NABLA_API nabla_array *nabla_sign(nabla_array *x);
NABLA_API nabla_array *nabla_exp(nabla_array *x);
NABLA_API nabla_array *nabla_log(nabla_array *x);
NABLA_API nabla_array *nabla_log1p(nabla_array *x);
NABLA_API nabla_array *nabla_sqrt(nabla_array *x);
NABLA_API nabla_array *nabla_rsqrt(nabla_array *x);
NABLA_API nabla_array *nabla_sin(nabla_array *x);
NABLA_API nabla_array *nabla_cos(nabla_array *x);
NABLA_API nabla_array *nabla_tan(nabla_array *x);
NABLA_API nabla_array *nabla_acos(nabla_array *x);
NABLA_API nabla_array *nabla_atanh(nabla_array *x);
NABLA_API nabla_array *nabla_tanh(nabla_array *x);
NABLA_API nabla_array *nabla_erf(nabla_array *x);
NABLA_API nabla_array *nabla_sigmoid(nabla_array *x);
NABLA_API nabla_array *nabla_relu(nabla_array *x);
NABLA_API nabla_array *nabla_silu(nabla_array *x);
NABLA_API nabla_array *nabla_gelu(nabla_array *x);
NABLA_API nabla_array *nabla_gelu_tanh(nabla_array *x);
NABLA_API nabla_array *nabla_floor(nabla_array *x);
NABLA_API nabla_array *nabla_ceil(nabla_array *x);
NABLA_API nabla_array *nabla_round(nabla_array *x);
NABLA_API nabla_array *nabla_trunc(nabla_array *x);
NABLA_API nabla_array *nabla_is_nan(nabla_array *x);
NABLA_API nabla_array *nabla_is_inf(nabla_array *x);
NABLA_API nabla_array *nabla_not(nabla_array *x);

/* Two operands. div gives floats, also of integers; quotient divides integers
 * towards 0. and, or, xor: truth values and integers. */
NABLA_API nabla_array *nabla_add(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_sub(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_mul(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_div(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_quotient(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_mod(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_pow(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_maximum(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_minimum(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_and(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_or(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_xor(nabla_array *x, nabla_array *y);

/* Comparisons, which give truth values (NABLA_DTYPE_BOOL). */
NABLA_API nabla_array *nabla_equal(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_not_equal(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_less(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_less_equal(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_greater(nabla_array *x, nabla_array *y);
NABLA_API nabla_array *nabla_greater_equal(nabla_array *x, nabla_array *y);

/* x where the condition is not 0, else y. */
NABLA_API nabla_array *nabla_where(nabla_array *condition, nabla_array *x,
                                   nabla_array *y);
/* Conversions to integers round towards 0; docs/DIALECT.md. */
NABLA_API nabla_array *nabla_convert(nabla_array *x, nabla_dtype dtype);
/* x, as a constant to derivatives. */
NABLA_API nabla_array *nabla_stop_gradient(nabla_array *x);

/* Reductions over dimensions, which stay with size 1 if `keep_dims` is not 0.
 * sum and prod of truth values, i8 and u8 are i32; the mean of integers is f32;
 * any and all give truth values. */
NABLA_API nabla_array *nabla_sum(nabla_array *x, uint32_t count,
                                 const int64_t *dims, int keep_dims);
NABLA_API nabla_array *nabla_max(nabla_array *x, uint32_t count,
                                 const int64_t *dims, int keep_dims);
NABLA_API nabla_array *nabla_prod(nabla_array *x, uint32_t count,
                                  const int64_t *dims, int keep_dims);
NABLA_API nabla_array *nabla_min(nabla_array *x, uint32_t count,
                                 const int64_t *dims, int keep_dims);
NABLA_API nabla_array *nabla_mean(nabla_array *x, uint32_t count,
                                  const int64_t *dims, int keep_dims);
NABLA_API nabla_array *nabla_any(nabla_array *x, uint32_t count,
                                 const int64_t *dims, int keep_dims);
NABLA_API nabla_array *nabla_all(nabla_array *x, uint32_t count,
                                 const int64_t *dims, int keep_dims);
/* Writes min and max to out[0] and out[1]; NULL after a failure. */
NABLA_API void nabla_minmax(nabla_array *x, uint32_t count, const int64_t *dims,
                            int keep_dims, nabla_array **out);
/* log(sum(exp(x))) along a dimension. */
NABLA_API nabla_array *nabla_logsumexp(nabla_array *x, int64_t dim,
                                       int keep_dims);
/* The index, i64, of the first largest or smallest element. */
NABLA_API nabla_array *nabla_argmax(nabla_array *x, int64_t dim, int keep_dims);
NABLA_API nabla_array *nabla_argmin(nabla_array *x, int64_t dim, int keep_dims);
NABLA_API nabla_array *nabla_cumsum(nabla_array *x, int64_t dim);
NABLA_API nabla_array *nabla_softmax(nabla_array *x, int64_t dim);
NABLA_API nabla_array *nabla_log_softmax(nabla_array *x, int64_t dim);

/* Dimensions that a product contracts, and those that are the same in both
 * operands and in the result: a list of each operand. Zero-initialise. */
typedef struct nabla_dot_dims {
  uint32_t batching_count, contracting_count;
  const int64_t *x_batching, *y_batching;
  const int64_t *x_contracting, *y_contracting;
} nabla_dot_dims;
/* StableHLO's dot_general, of floats: integers become f32. The result has the
 * batching dimensions, then the others of x, then those of y. */
NABLA_API nabla_array *nabla_dot_general(nabla_array *x, nabla_array *y,
                                         const nabla_dot_dims *dims);
/* NumPy's matmul. */
NABLA_API nabla_array *nabla_matmul(nabla_array *x, nabla_array *y);
/* The products of each element of x with each of y. */
NABLA_API nabla_array *nabla_outer(nabla_array *x, nabla_array *y);
/* x w^T + bias; `bias` may be nabla_none(). */
NABLA_API nabla_array *nabla_linear(nabla_array *x, nabla_array *w,
                                    nabla_array *bias);

/* Options of nabla_conv_general; members that are 0 or NULL are defaults. Lists
 * of the windows have an entry for each spatial dimension, `*_dims` one for
 * each dimension: docs/DIALECT.md. */
typedef struct nabla_conv_options {
  size_t struct_size; /* sizeof(nabla_conv_options) */
  const int64_t *strides, *low, *high, *input_dilation, *kernel_dilation;
  int64_t groups;
  const int64_t *input_dims, *kernel_dims, *output_dims;
} nabla_conv_options;
/* StableHLO's convolution; NULL: the default options. */
NABLA_API nabla_array *nabla_conv_general(nabla_array *x, nabla_array *kernel,
                                          const nabla_conv_options *options);

typedef enum nabla_window_kind {
  NABLA_WINDOW_SUM,
  NABLA_WINDOW_MAX,
  NABLA_WINDOW_MIN,
  NABLA_WINDOW_AVG,
} nabla_window_kind;
/* Windows over all dimensions of an array. Lists have `count` entries; NULL: 1
 * for strides and dilation, 0 for the padding. */
typedef struct nabla_window_options {
  size_t struct_size; /* sizeof(nabla_window_options) */
  uint32_t count;
  const int64_t *sizes, *strides, *dilation, *low, *high;
  int count_padding; /* AVG divides by the size of the window */
} nabla_window_options;
NABLA_API nabla_array *nabla_reduce_window(nabla_array *x,
                                           nabla_window_kind kind,
                                           const nabla_window_options *window);
/* Windows over the last `count` dimensions. NULL: strides of the sizes, no
 * padding; `padding` is that of both sides, and does not count. */
NABLA_API nabla_array *nabla_max_pool(nabla_array *x, uint32_t count,
                                      const int64_t *sizes,
                                      const int64_t *strides,
                                      const int64_t *padding);
NABLA_API nabla_array *nabla_avg_pool(nabla_array *x, uint32_t count,
                                      const int64_t *sizes,
                                      const int64_t *strides,
                                      const int64_t *padding);

/* Dimension i of the result is dimension permutation[i] of x; a count of 0: in
 * reverse order. */
NABLA_API nabla_array *nabla_transpose(nabla_array *x, uint32_t count,
                                       const int64_t *permutation);
NABLA_API nabla_array *nabla_swap_axes(nabla_array *x, int64_t first,
                                       int64_t second);
/* The others keep their order. */
NABLA_API nabla_array *nabla_moveaxis(nabla_array *x, int64_t from, int64_t to);
/* One size may be -1: it follows from the others. */
NABLA_API nabla_array *nabla_reshape(nabla_array *x, uint32_t count,
                                     const int64_t *shape);
/* Joins dimensions `first` to `last`. */
NABLA_API nabla_array *nabla_flatten(nabla_array *x, int64_t first,
                                     int64_t last);
/* Without dimensions, which have size 1; a count of 0: all of size 1. */
NABLA_API nabla_array *nabla_squeeze(nabla_array *x, uint32_t count,
                                     const int64_t *dims);
/* With a new dimension of size 1, which is `dim` of the result. */
NABLA_API nabla_array *nabla_unsqueeze(nabla_array *x, int64_t dim);
NABLA_API nabla_array *nabla_broadcast_to(nabla_array *x, uint32_t count,
                                          const int64_t *shape);
/* Dimension i of x is dimension dims[i] of the result. */
NABLA_API nabla_array *nabla_broadcast_in_dim(nabla_array *x, uint32_t count,
                                              const int64_t *shape,
                                              uint32_t dim_count,
                                              const int64_t *dims);
/* Elements from `starts` below `limits`, which count from the end if they are
 * negative; a limit of NABLA_END is the end. `strides` NULL: 1. */
#define NABLA_END INT64_MAX
NABLA_API nabla_array *nabla_slice(nabla_array *x, uint32_t count,
                                   const int64_t *starts, const int64_t *limits,
                                   const int64_t *strides);
/* A box of sizes at starts that are computed: integers of rank 0, one for each
 * dimension. A box that would extend beyond x is moved inside. */
NABLA_API nabla_array *nabla_dynamic_slice(nabla_array *x, uint32_t count,
                                           nabla_array *const *starts,
                                           const int64_t *sizes);
/* x with this box replaced by an array. */
NABLA_API nabla_array *nabla_dynamic_update_slice(nabla_array *x,
                                                  nabla_array *update,
                                                  uint32_t count,
                                                  nabla_array *const *starts);
/* `value`, of rank 0, before, after and between the elements of each dimension;
 * a negative low or high removes elements. `interior` NULL: 0. */
NABLA_API nabla_array *nabla_pad(nabla_array *x, nabla_array *value,
                                 uint32_t count, const int64_t *low,
                                 const int64_t *high, const int64_t *interior);
NABLA_API nabla_array *nabla_flip(nabla_array *x, uint32_t count,
                                  const int64_t *dims);
/* The triangle of the last two dimensions above a diagonal, or below it; 0
 * elsewhere. */
NABLA_API nabla_array *nabla_triu(nabla_array *x, int64_t diagonal);
NABLA_API nabla_array *nabla_tril(nabla_array *x, int64_t diagonal);
/* Join up to 64 arrays along a dimension, which is new in stack. */
NABLA_API nabla_array *nabla_concatenate(uint32_t count,
                                         nabla_array *const *arrays,
                                         int64_t dim);
NABLA_API nabla_array *nabla_stack(uint32_t count, nabla_array *const *arrays,
                                   int64_t dim);
/* Write `count` arrays to `out`, all NULL after a failure: pieces of sizes,
 * equal pieces, pieces of size 1 without the dimension. */
NABLA_API void nabla_split(nabla_array *x, int64_t dim, uint32_t count,
                           const int64_t *sizes, nabla_array **out);
NABLA_API void nabla_chunk(nabla_array *x, int64_t dim, uint32_t count,
                           nabla_array **out);
NABLA_API void nabla_unbind(nabla_array *x, int64_t dim, uint32_t count,
                            nabla_array **out);

/* Dimension numbers of StableHLO's gather and scatter: docs/DIALECT.md. */
typedef struct nabla_gather_dims {
  size_t struct_size; /* sizeof(nabla_gather_dims) */
  uint32_t offset_count, collapsed_count, batching_count, map_count;
  const int64_t *offset_dims, *collapsed_dims;
  const int64_t *x_batching, *indices_batching;
  const int64_t *index_map;
  int64_t vector_dim;
} nabla_gather_dims;
typedef enum nabla_scatter_kind {
  NABLA_SCATTER_SET,
  NABLA_SCATTER_ADD,
  NABLA_SCATTER_MUL,
  NABLA_SCATTER_MIN,
  NABLA_SCATTER_MAX,
} nabla_scatter_kind;
/* Boxes of x, of sizes; -1: the whole dimension. */
NABLA_API nabla_array *nabla_gather(nabla_array *x, nabla_array *indices,
                                    const nabla_gather_dims *dims,
                                    uint32_t count, const int64_t *sizes);
/* x with boxes replaced by updates, or combined with them one after the other.
 */
NABLA_API nabla_array *nabla_scatter(nabla_array *x, nabla_array *indices,
                                     nabla_array *updates,
                                     nabla_scatter_kind kind,
                                     const nabla_gather_dims *dims);
/* The elements of x at indices of a dimension, in place of which the result has
 * the dimensions of the indices. Indices below 0 count from the end, those
 * beyond are moved inside. A dimension of size 0 takes only indices of a shape
 * without elements. */
NABLA_API nabla_array *nabla_take(nabla_array *x, nabla_array *indices,
                                  int64_t dim);
/* x with these elements replaced by values or combined with them, in the order
 * of the indices; values are broadcast, indices beyond x are left out. */
NABLA_API nabla_array *nabla_at(nabla_array *x, int64_t dim,
                                nabla_array *indices, nabla_array *values,
                                nabla_scatter_kind kind);
/* A new last dimension: 1 at the index, else 0. */
NABLA_API nabla_array *nabla_one_hot(nabla_array *indices, int64_t size,
                                     nabla_dtype dtype);

/* Along the last dimension; weight and bias may be nabla_none(), a bias only
 * without a weight may not be given. */
NABLA_API nabla_array *nabla_rms_norm(nabla_array *x, nabla_array *weight,
                                      double eps);
NABLA_API nabla_array *nabla_layer_norm(nabla_array *x, nabla_array *weight,
                                        nabla_array *bias, double eps);
/* Options of nabla_rope; members that are 0 are defaults. */
typedef struct nabla_rope_options {
  size_t struct_size; /* sizeof(nabla_rope_options)                       */
  int halves;         /* pairs i and i + D / 2; default: 2 i and 2 i + 1  */
  double theta;       /* 0: 10000                                         */
  int64_t offset;     /* the first position, if positions are not given   */
} nabla_rope_options;
/* Rotary position embedding; `positions`, of the indices of `dim`, may be
 * nabla_none(). NULL: the default options. */
NABLA_API nabla_array *nabla_rope(nabla_array *x, nabla_array *positions,
                                  int64_t dim,
                                  const nabla_rope_options *options);
/* softmax(q k^T scale + mask) v. `mask`, and `keys`, the number of keys that
 * count, may be nabla_none(); a scale of 0 is 1 / sqrt(D). */
NABLA_API nabla_array *nabla_attention(nabla_array *q, nabla_array *k,
                                       nabla_array *v, nabla_array *mask,
                                       nabla_array *keys, double scale,
                                       int causal);
/* The mean of the squared differences. */
NABLA_API nabla_array *nabla_mse(nabla_array *x, nabla_array *y);
/* The mean of -log(softmax(logits)) of the classes in `labels`: their numbers,
 * or probabilities of all classes. */
NABLA_API nabla_array *nabla_cross_entropy(nabla_array *logits,
                                           nabla_array *labels);

/* x packed in a layout: NABLA_STORAGE_PLANES with a format. */
NABLA_API nabla_array *nabla_quantize(nabla_array *x,
                                      const nabla_storage *layout);
/* The dense values of a packed array; a dense array itself. */
NABLA_API nabla_array *nabla_materialize(nabla_array *x);
/* A packed array of this shape from its components, in the order of
 * nabla_weight_components; codes are i8 or u8. */
NABLA_API nabla_array *nabla_pack(uint32_t count,
                                  nabla_array *const *components,
                                  const nabla_storage *layout, uint32_t rank,
                                  const int64_t *shape);
/* The same of any encoding, the text of its attribute as programs write it:
 * "#nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>", whose base is a
 * packed array, or that of a custom encoding (nabla/custom_encoding.h). Arrays
 * of encodings that nabla_weight_desc does not have are parts of graphs: they
 * cannot be realized or be arguments of a function. */
NABLA_API nabla_array *nabla_pack_as(uint32_t count,
                                     nabla_array *const *components,
                                     const char *encoding, uint32_t rank,
                                     const int64_t *shape);
/* Writes the components of a packed array, `count` of them, to `out`; all NULL
 * after a failure. Codes are i8; scales in 8 bits are a packed array. */
NABLA_API void nabla_unpack(nabla_array *x, uint32_t count, nabla_array **out);
/* How many levels are packed, as an i64: 0 of a dense array. */
NABLA_API nabla_array *nabla_implicit_depth(nabla_array *x);

#ifdef __cplusplus
}
#endif

#ifdef NABLA_HAS_HERE
#include "nabla/here.def"
#endif

#endif
