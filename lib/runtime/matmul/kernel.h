/* How a kernel of a product with a packed weight is called, wherever its code
 * comes from: generated for one shape, made ahead of time, or C.
 *
 * y = epilogue(x . w), x is M x K and y M x N, dense, row-major; w is N x K.
 * A kernel is up to three functions, all nabla_kernel_function with the
 * arguments below:
 *   prepare  writes rows [begin, end) of x to the workspace in the form that
 *            `run` reads; all rows before any `run`
 *   run      computes columns [begin, end) of y, for all rows of x; `begin` is
 *            a multiple of the grain, `end` is too or is N
 *   prepack  writes rows [begin, end) of the weight to `packed`, once; both
 *            as for `run`
 * The bytes of y do not depend on how [0, N) is cut. */
#ifndef NABLA_RUNTIME_MATMUL_KERNEL_H
#define NABLA_RUNTIME_MATMUL_KERNEL_H

#include "nabla/numerics.h"
#include "nabla/services.h"

/* Arguments of a kernel: indices of an array of i64. Pointers are addresses. */
typedef enum nabla_kernel_arg {
  NABLA_ARG_X = 0,           /* address of x                                 */
  NABLA_ARG_Y = 1,           /* address of y                                 */
  NABLA_ARG_M = 2,           /* rows of x and y                              */
  NABLA_ARG_CODES = 3,       /* address of the codes, any alignment; of a dense
                                weight its values, of GGUF blocks the blocks */
  NABLA_ARG_SCALES = 4,      /* address of the scales, aligned to their type */
  NABLA_ARG_ZERO_POINTS = 5, /* address of the zero points, if any           */
  NABLA_ARG_N = 6,           /* N and K, read where they are open or any     */
  NABLA_ARG_K = 7,
  NABLA_ARG_WORKSPACE = 8, /* address of the workspace, 64-byte aligned    */
  NABLA_ARG_PACKED = 9,    /* address of the prepacked weight, 64-byte
                              aligned; codes and scales are not read then  */
  /* With scales in 8 bits (nabla/dynamic8.h), SCALES has the address of their
   * codes, and here are those of their absmax, offset and map. */
  NABLA_ARG_NESTED_SCALES = 10,
  NABLA_ARG_NESTED_OFFSET = 11,
  NABLA_ARG_NESTED_MAP = 12,
  NABLA_ARG_CONTEXT = 13,  /* of kernels in C: address of their context    */
  NABLA_ARG_X_STRIDE = 14, /* elements between rows of x, read by kernels for
                              strided x only (NABLA_X_STRIDED)            */
  NABLA_ARG_W_STRIDE = 15, /* elements between rows, or columns, of a dense
                              weight, read by kernels where it is open     */
  NABLA_ARG_EPILOGUE = 16, /* from here: one argument for each step that has
                              an operand, in order of the steps: its address */
  NABLA_KERNEL_ARGS = 24
} nabla_kernel_arg;

/* How many bytes an array takes that is stored in tiles of `rows` x `columns`
 * elements, `bytes` each, the last ones whole. `bytes` 0: there is none. */
typedef struct nabla_kernel_tiles {
  uint32_t rows, columns, bytes;
} nabla_kernel_tiles;

/* Ways to arrange a prepacked weight. */
typedef enum nabla_packed_form {
  NABLA_PACKED_NONE = 0,
  NABLA_PACKED_VALUES, /* for products in f32 */
  NABLA_PACKED_BYTES,  /* in integers         */
} nabla_packed_form;

/* A kernel as one that calls it sees it. */
typedef struct nabla_kernel {
  nabla_kernel_function run;
  nabla_kernel_function prepare; /* NULL: none needed, nor a workspace */
  nabla_kernel_function prepack; /* NULL: the weight is read in place  */
  nabla_kernel_tiles workspace;  /* of x: M x K      */
  nabla_kernel_tiles packed;     /* of w: N x K      */
  uint32_t grain;                /* of [0, N)        */
  uint32_t form; /* nabla_packed_form: kernels for one weight that have the same
                    read the same prepacked array */
} nabla_kernel;

/* Bytes for an array of `rows` x `columns` elements.
 * @return 1, or 0 when they are more than 63 bits hold */
int nabla_kernel_tiles_size(const nabla_kernel_tiles *tiles, uint64_t rows,
                            uint64_t columns, uint64_t *out);

#endif
