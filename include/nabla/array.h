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

#include "nabla/compiler.h"
#include "nabla/environment.h"
#include "nabla/executable.h"
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
 * place of the call, as program and offset. With NABLA_OK `diag` is not
 * touched. */
NABLA_API nabla_status nabla_scope_status(const nabla_scope *scope,
                                          nabla_diag *diag);
/* Forgets the failure. */
NABLA_API void nabla_scope_clear(nabla_scope *scope);

/* ---- references ---- */

/* Adds a reference of the user, and returns the array. What is realized
 * together with a pending array that the user holds realizes it as well. */
NABLA_API nabla_array *nabla_retain(nabla_array *array);
/* Takes away a reference of the user; if there is none, that of the scope. The
 * array is freed with its last reference. NULL is allowed. */
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

/* ---- values ---- */

/* Returns dtype, rank and shape. `data` is NULL while the array is pending, and
 * then lives as long as the array. NULL for NULL. */
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
 * array.
 * @return as nabla_realize; NABLA_INVALID_ARGUMENT for a NULL array, with the
 *         first failure of the innermost scope of this thread */
NABLA_API NABLA_MUST_USE nabla_status nabla_array_read(nabla_array *array,
                                                       nabla_dense *out,
                                                       nabla_diag *diag);

/* ---- operations ----
 *
 * lib/array/operations.def has a row for each, in the order of this header. All
 * return a new array in the innermost scope of the calling thread. Operands
 * are broadcast as NumPy's are. docs/DIALECT.md defines each operation. */

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

/* Two operands of any dtypes, which are converted to one: docs/ARRAYS.md has
 * the table. div gives floats, also of integers; quotient divides integers
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

#ifdef __cplusplus
}
#endif

#endif
