/* Loads and stores in kernels of clusters. A tail of fewer than 16 columns is
 * read and written by masked operations in lanes of 32 and 64 bits. Narrower
 * elements go through 64 bytes of stack, one by one: a masked store of 16 bits
 * may write beside its lanes (docs/internals/UPSTREAM.md). */
#include "transforms/cluster/body.h"

static unsigned bytes_of(nabla_dtype dtype) {
  return nabla_cluster_lane_of(dtype)->bytes;
}

static nabla_ssa address_of(nabla_cluster_body *b, nabla_array_ref array,
                            nabla_ssa index) {
  return k_address(b->e, array.base,
                   k_multiply(b->e, index, bytes_of(array.dtype)));
}

/* Truth values are bytes, 0 or 1. */
static nabla_ssa read_truth(nabla_cluster_body *b, nabla_array_ref array,
                            nabla_ssa index) {
  const char *type = nabla_cluster_type_of(b, NABLA_DTYPE_I8);
  nabla_ssa bytes =
      k_op(b->e, "llvm.load %%v%u {alignment = 1 : i64} : !llvm.ptr -> %s",
           address_of(b, array, index), type);
  nabla_ssa zero =
      k_op(b->e,
           b->shape == NABLA_SCALAR ? "arith.constant 0 : %s"
                                    : "arith.constant dense<0> : %s",
           type);
  return k_op(b->e, "arith.cmpi ne, %%v%u, %%v%u : %s", bytes, zero, type);
}

static void write_truth(nabla_cluster_body *b, nabla_array_ref array,
                        nabla_ssa index, nabla_ssa value) {
  const char *type = nabla_cluster_type_of(b, NABLA_DTYPE_I8);
  nabla_ssa bytes = k_op(b->e, "arith.extui %%v%u : %s to %s", value,
                         nabla_cluster_type_of(b, NABLA_DTYPE_BOOL), type);
  k_line(b->e, "llvm.store %%v%u, %%v%u {alignment = 1 : i64} : %s, !llvm.ptr",
         bytes, address_of(b, array, index), type);
}

static bool is_half(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F16 || dtype == NABLA_DTYPE_BF16;
}

nabla_ssa nabla_cluster_read(nabla_cluster_body *b, nabla_shape shape,
                             nabla_array_ref array, nabla_ssa index) {
  b->shape = shape;
  if (array.dtype == NABLA_DTYPE_BOOL) return read_truth(b, array, index);
  if (!is_half(array.dtype))
    return k_op(b->e,
                "llvm.load %%v%u {alignment = %u : i64} : !llvm.ptr -> %s",
                address_of(b, array, index), bytes_of(array.dtype),
                nabla_cluster_type_of(b, array.dtype));
  return shape == NABLA_SCALAR ? k_read(b->e, array, index)
                               : k_read_lanes(b->e, array, index, NABLA_LANES);
}

void nabla_cluster_write(nabla_cluster_body *b, nabla_shape shape,
                         nabla_array_ref array, nabla_ssa index,
                         nabla_ssa value) {
  b->shape = shape;
  if (array.dtype == NABLA_DTYPE_BOOL)
    write_truth(b, array, index, value);
  else if (!is_half(array.dtype))
    k_line(b->e,
           "llvm.store %%v%u, %%v%u {alignment = %u : i64} : %s, !llvm.ptr",
           value, address_of(b, array, index), bytes_of(array.dtype),
           nabla_cluster_type_of(b, array.dtype));
  else if (shape == NABLA_SCALAR)
    k_write(b->e, array, index, value);
  else
    k_write_lanes(b->e, array, index, value);
}

/* Copies `width` elements between arrays, as integers. */
static void copy(nabla_cluster_body *b, nabla_ssa to, nabla_ssa from,
                 unsigned bytes) {
  nabla_loop loop;
  const char *type = bytes == 1 ? "i8" : "i16";
  k_loop_begin(b->e, &loop, k_i64(b->e, 0), b->width, 1, 0, NULL);
  nabla_ssa at = k_multiply(b->e, loop.induction, bytes);
  k_store(b->e, type, k_load(b->e, type, from, at, bytes), to, at, bytes);
  k_loop_end(b->e, &loop, NULL);
}

static nabla_ssa read_tail(nabla_cluster_body *b, nabla_array_ref array,
                           nabla_ssa index) {
  nabla_ssa address = address_of(b, array, index);
  const nabla_cluster_lane *lane = nabla_cluster_lane_of(array.dtype);
  if (lane->bytes >= 4) {
    const char *type = lane->type[NABLA_VECTOR];
    b->lane = lane;
    return k_op(b->e,
                "llvm.intr.masked.load %%v%u, %%v%u, %%v%u {alignment = %u : "
                "i32} : (!llvm.ptr, vector<16xi1>, %s) -> %s",
                address, b->mask, nabla_cluster_number(b, 0), lane->bytes, type,
                type);
  }
  nabla_array_ref scratch = {b->scratch, array.dtype};
  k_store(b->e, nabla_type_i32[NABLA_VECTOR], k_i32(b->e, NABLA_VECTOR, 0),
          b->scratch, k_i64(b->e, 0), 4);
  copy(b, b->scratch, address, bytes_of(array.dtype));
  return nabla_cluster_read(b, NABLA_VECTOR, scratch, k_i64(b->e, 0));
}

static void write_tail(nabla_cluster_body *b, nabla_array_ref array,
                       nabla_ssa index, nabla_ssa value) {
  nabla_ssa address = address_of(b, array, index);
  const nabla_cluster_lane *lane = nabla_cluster_lane_of(array.dtype);
  if (lane->bytes >= 4) {
    k_line(
        b->e,
        "llvm.intr.masked.store %%v%u, %%v%u, %%v%u {alignment = %u : i32} : "
        "%s, vector<16xi1> into !llvm.ptr",
        value, address, b->mask, lane->bytes, lane->type[NABLA_VECTOR]);
    return;
  }
  nabla_array_ref scratch = {b->scratch, array.dtype};
  nabla_cluster_write(b, NABLA_VECTOR, scratch, k_i64(b->e, 0), value);
  copy(b, address, b->scratch, bytes_of(array.dtype));
}

nabla_ssa nabla_cluster_load(nabla_cluster_body *b, int input) {
  nabla_array_ref array = {b->inputs[input], b->c->inputs[input].dtype};
  nabla_ssa index = k_add(b->e, b->starts[input], b->column);
  return b->mask ? read_tail(b, array, index)
                 : nabla_cluster_read(b, NABLA_VECTOR, array, index);
}

static nabla_array_ref output_of(const nabla_cluster_body *b, int output) {
  const int node = b->c->outputs[output].node;
  return (nabla_array_ref){b->outputs[output], b->c->nodes[node].dtype};
}

/* Writes 16 numbers of f32 that are numbers of bf16: their upper halves. */
static void write_upper(nabla_cluster_body *b, nabla_array_ref array,
                        nabla_ssa index, nabla_ssa value) {
  const char *words = nabla_type_i32[NABLA_VECTOR];
  nabla_ssa bits =
      k_bitcast(b->e, nabla_cluster_type_of(b, NABLA_DTYPE_F32), words, value);
  bits = k_op(b->e, "arith.shrui %%v%u, %%v%u : %s", bits,
              k_i32(b->e, NABLA_VECTOR, 16), words);
  k_line(b->e,
         "llvm.store %%v%u, %%v%u {alignment = 2 : i64} : vector<16xi16>, "
         "!llvm.ptr",
         k_op(b->e, "arith.trunci %%v%u : %s to vector<16xi16>", bits, words),
         address_of(b, array, index));
}

void nabla_cluster_store(nabla_cluster_body *b, int output, nabla_ssa value,
                         bool is_rounded) {
  nabla_array_ref array = output_of(b, output);
  nabla_ssa index = k_add(b->e, b->begin, b->column);
  b->shape = NABLA_VECTOR;
  if (b->mask)
    write_tail(b, array, index, value);
  else if (is_rounded && array.dtype == NABLA_DTYPE_BF16)
    write_upper(b, array, index, value);
  else
    nabla_cluster_write(b, NABLA_VECTOR, array, index, value);
}

nabla_ssa nabla_cluster_reload(nabla_cluster_body *b, int output) {
  nabla_ssa index = k_add(b->e, b->begin, b->column);
  return b->mask
             ? read_tail(b, output_of(b, output), index)
             : nabla_cluster_read(b, NABLA_VECTOR, output_of(b, output), index);
}

nabla_ssa nabla_cluster_load_row(nabla_cluster_body *b, int input) {
  nabla_array_ref array = {b->inputs[input], b->c->inputs[input].dtype};
  return nabla_cluster_read(b, NABLA_SCALAR, array, b->starts[input]);
}

void nabla_cluster_store_row(nabla_cluster_body *b, int output,
                             nabla_ssa value) {
  nabla_cluster_write(b, NABLA_SCALAR, output_of(b, output), b->row, value);
}
