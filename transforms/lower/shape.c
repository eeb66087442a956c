/* Lowerings of transpose, reshape and broadcast_in_dim of dense arrays. */
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/transpose_tiles.h"
#include "transforms/ir/service_text.h"
#include "transforms/lower/list.h"

/* Makes a tensor of the shape of `shape` from all elements of `in`; `map` has
 * the loop of each dimension of `in`. */
static nabla_ssa_tensor copy(nabla_template *t, const nabla_ssa_tensor *in,
                             const intptr_t *map, nabla_ssa_tensor *shape) {
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, in->element->name);
  nabla_generic g = {.loops = shape->rank};
  nabla_generic_add(&g, in, map);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(t, &g, g.operands[0].element);
}

/* ---- transposes by a kernel ---- */

/* Elements below which loops are as fast; bytes from which results do not stay
 * in the caches; bytes of a part that is worth a thread. */
#define FEWEST      1024
#define PAST_CACHES (INT64_C(16) << 20)
#define PART        65536

static unsigned bytes_of(const nabla_element *element) {
  static const struct {
    const char *name;
    unsigned bytes;
  } known[] = {{"f64", 8}, {"i64", 8},  {"f32", 4},
               {"i32", 4}, {"bf16", 2}, {"f16", 2}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, element->name)) return known[i].bytes;
  return 0;
}

/* The elements; NABLA_DYNAMIC's marker where a dimension is not known. */
static bool count_static(const nabla_ssa_tensor *in, intptr_t first,
                         intptr_t end, int64_t *out) {
  *out = 1;
  for (intptr_t i = first; i < end; i++)
    if (nabla_is_dynamic(in->dims[i]) ||
        __builtin_mul_overflow(*out, in->dims[i], out))
      return false;
  return true;
}

/* Whether a permutation exchanges two groups of neighbouring dimensions, of
 * which `out_split` are in the first, and there is a kernel for arrays of type
 * `in` on this target: large ones of elements of 2, 4 or 8 bytes. */
static bool has_kernel(const nabla_template *t, const nabla_ssa_tensor *in,
                       const int64_t *order, intptr_t *out_split) {
  int64_t all;
  if (in->rank < 2 || !NABLA_HAS(t->spec.features, AVX2) ||
      !bytes_of(in->element))
    return false;
  *out_split = order[0];
  for (intptr_t i = 0; i < in->rank; i++)
    if (order[i] != (order[0] + i) % in->rank) return false;
  return *out_split > 0 &&
         (!count_static(in, 0, in->rank, &all) || all >= FEWEST);
}

static void add_type(nabla_text *text, const char *kind,
                     const nabla_ssa_tensor *tensor) {
  nabla_text_add(text, "%s<", kind);
  for (intptr_t i = 0; i < tensor->rank; i++)
    if (nabla_is_dynamic(tensor->dims[i]))
      nabla_text_add(text, "?x");
    else
      nabla_text_add(text, "%lldx", (long long)tensor->dims[i]);
  nabla_text_add(text, "%s>", tensor->element->name);
}

/* Whether lines of the result go past the caches, which has to be known. */
static bool streams(const nabla_ssa_tensor *in, intptr_t split) {
  const unsigned bytes = bytes_of(in->element);
  int64_t all, rows;
  return bytes >= 4 && count_static(in, 0, in->rank, &all) &&
         count_static(in, 0, split, &rows) && all >= PAST_CACHES / bytes &&
         rows % (64 / bytes) == 0;
}

static long long grain_of(const nabla_ssa_tensor *in, intptr_t split) {
  int64_t rows;
  if (!count_static(in, 0, split, &rows) || rows < 1) return 1;
  const int64_t unit =
      rows > PART ? PART
                  : rows * NABLA_TRANSPOSE_COLUMNS * bytes_of(in->element);
  return unit >= PART ? 1 : (PART + unit - 1) / unit;
}

/* %NAME, an index: the product of dimensions [first, end) of %a0. */
static void add_product(nabla_template *t, const char *name, intptr_t first,
                        intptr_t end) {
  nabla_text_add(&t->text, "  %%%s%td = arith.constant 1 : index\n", name,
                 first);
  for (intptr_t i = first; i < end; i++)
    nabla_text_add(&t->text, "  %%%s%td = arith.muli %%%s%td, %%d%td : index\n",
                   name, i + 1, name, i, i);
}

static void add_word(nabla_template *t, int word, const char *index) {
  nabla_text_add(&t->text,
                 "  %%w%d = arith.constant %d : index\n"
                 "  %%q%d = arith.index_cast %%%s : index to i64\n"
                 "  memref.store %%q%d, %%words[%%w%d] : memref<%dxi64>\n",
                 word, word, word, index, word, word, NABLA_TRANSPOSE_ARGS);
}

static void add_buffers(nabla_template *t, const nabla_ssa_tensor *in,
                        const nabla_ssa_tensor *out, intptr_t split) {
  const char *comma = "";
  nabla_text_add(&t->text, "  %%x = bufferization.to_buffer %%a0 read_only : ");
  add_type(&t->text, "tensor", in);
  nabla_text_add(&t->text, " to ");
  add_type(&t->text, "memref", in);
  nabla_text_add(&t->text, "\n  %%y = memref.alloc(");
  for (intptr_t i = 0; i < out->rank; i++)
    if (nabla_is_dynamic(out->dims[i])) {
      nabla_text_add(&t->text, "%s%%d%td", comma, (i + split) % in->rank);
      comma = ", ";
    }
  nabla_text_add(&t->text, ") : ");
  add_type(&t->text, "memref", out);
  for (int i = 0; i < 2; i++) {
    nabla_text_add(
        &t->text,
        "\n  %%p%d = memref.extract_aligned_pointer_as_index %%%c : ", i,
        "xy"[i]);
    add_type(&t->text, "memref", i ? out : in);
    nabla_text_add(&t->text, " -> index\n");
  }
}

static void add_call(nabla_template *t, const nabla_ssa_tensor *in,
                     intptr_t split, const char *kernel) {
  nabla_text_add(&t->text,
                 "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
                 "memref<%dxi64> -> index\n"
                 "  %%wq = arith.index_cast %%wi : index to i64\n"
                 "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n"
                 "  %%kernel = llvm.mlir.addressof @%s : !llvm.ptr\n"
                 "  %%width = arith.constant %u : index\n"
                 "  %%units = arith.ceildivui %%c%td, %%width : index\n"
                 "  %%n = arith.index_cast %%units : index to i64\n"
                 "  %%grain = arith.constant %lld : i64\n"
                 "  func.call @nabla_parallel(%%kernel, %%wp, %%n, %%grain) : "
                 "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()\n",
                 NABLA_TRANSPOSE_ARGS, kernel, NABLA_TRANSPOSE_COLUMNS,
                 in->rank, grain_of(in, split));
}

static void add_signature(nabla_text *text, const nabla_ssa_tensor *in,
                          const nabla_ssa_tensor *out, const char *name) {
  nabla_text_add(text, "(%s", name);
  add_type(text, "tensor", in);
  nabla_text_add(text, ") -> ");
  add_type(text, "tensor", out);
}

static void name_function(const nabla_ssa_tensor *in, intptr_t split,
                          nabla_text *out) {
  nabla_text_add(out, "nabla_transpose_%s_at%td", in->element->name, split);
  for (intptr_t i = 0; i < in->rank; i++)
    if (nabla_is_dynamic(in->dims[i]))
      nabla_text_add(out, "_any");
    else
      nabla_text_add(out, "_%lld", (long long)in->dims[i]);
}

/* The kernel and the function that calls it, whose name `out_name` becomes. */
static void add_transpose(nabla_template *t, const nabla_ssa_tensor *in,
                          const nabla_ssa_tensor *out, intptr_t split,
                          nabla_text *out_name) {
  const unsigned bytes = bytes_of(in->element);
  const bool past = streams(in, split);
  char kernel[48], last[24];
  snprintf(kernel, sizeof kernel, "nabla_transpose_kernel_%u%s", 8 * bytes,
           past ? "_past" : "");
  name_function(in, split, out_name);
  if (nabla_module_has(t->op, kernel))
    nabla_text_add(&t->text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", kernel);
  else
    nabla_transpose_tiles_emit(bytes, past, kernel, &t->text);
  nabla_text_add(&t->text, NABLA_PARALLEL_TEXT "func.func private @%s",
                 out_name->data ? out_name->data : "");
  add_signature(&t->text, in, out, "%a0: ");
  nabla_text_add(&t->text, " {\n  %%words = %s() : memref<%dxi64>\n",
                 "memref.alloca", NABLA_TRANSPOSE_ARGS);
  for (intptr_t i = 0; i < in->rank; i++) {
    nabla_text_add(&t->text,
                   "  %%i%td = arith.constant %td : index\n"
                   "  %%d%td = tensor.dim %%a0, %%i%td : ",
                   i, i, i, i);
    add_type(&t->text, "tensor", in);
    nabla_text_add(&t->text, "\n");
  }
  add_product(t, "r", 0, split);
  add_product(t, "c", split, in->rank);
  add_buffers(t, in, out, split);
  add_word(t, NABLA_TRANSPOSE_X, "p0");
  add_word(t, NABLA_TRANSPOSE_Y, "p1");
  snprintf(last, sizeof last, "r%td", split);
  add_word(t, NABLA_TRANSPOSE_ROWS, last);
  snprintf(last, sizeof last, "c%td", in->rank);
  add_word(t, NABLA_TRANSPOSE_COLS, last);
  add_call(t, in, split, kernel);
  nabla_text_add(&t->text,
                 "  %%out = bufferization.to_tensor %%y restrict writable : ");
  add_type(&t->text, "memref", out);
  nabla_text_add(&t->text, " to ");
  add_type(&t->text, "tensor", out);
  nabla_text_add(&t->text, "\n  return %%out : ");
  add_type(&t->text, "tensor", out);
  nabla_text_add(&t->text, "\n}\n");
}

static nabla_ssa call_transpose(nabla_template *t, const nabla_ssa_tensor *in,
                                const nabla_ssa_tensor *out, const char *name) {
  const nabla_ssa value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = func.call @%s(%%v%u) : ", value, name,
                 in->value);
  add_signature(&t->text, in, out, "");
  nabla_text_add(&t->text, "\n");
  return value;
}

/* By the kernel of transpose_tiles.h. */
static bool transpose_by_kernel(nabla_template *t, intptr_t split) {
  nabla_text name = {0};
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  const nabla_ssa_tensor out = nabla_template_result(t);
  add_transpose(t, &in, &out, split, &name);
  nabla_template_open(t);
  in = nabla_template_operand(t, 0);
  const nabla_ssa result = call_transpose(t, &in, &out, name.data);
  nabla_text_deinit(&name);
  return nabla_template_close(t, result);
}

bool nabla_lower_transpose(nabla_template *t) {
  int64_t order[NABLA_MAX_RANK];
  intptr_t map[NABLA_MAX_RANK], split;
  bool moves = false;
  nabla_op_integers(t->op, "permutation", order);
  const nabla_ssa_tensor given = nabla_template_operand(t, 0);
  if (has_kernel(t, &given, order, &split))
    return transpose_by_kernel(t, split);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  for (intptr_t i = 0; i < in.rank; i++) {
    map[order[i]] = i;
    moves = moves || order[i] != i;
  }
  if (!moves) return nabla_template_close(t, in.value);
  for (intptr_t i = 0; i < in.rank; i++)
    if (nabla_is_dynamic(shape.dims[i]))
      shape.sizes[i] = nabla_ssa_tensor_size(t, &in, (intptr_t)order[i]);
  return nabla_template_close(t, copy(t, &in, map, &shape).value);
}

/* ---- reshape ---- */

static nabla_ssa multiply(nabla_template *t, nabla_ssa a, nabla_ssa b) {
  return k_op(&t->emit, "arith.muli %%v%u, %%v%u : index", a, b);
}

/* Returns the number of elements of an existing array. If a dimension is 0, the
 * product is 0 even if it wraps in between. */
static nabla_ssa count_elements(nabla_template *t, nabla_ssa_tensor *tensor) {
  nabla_ssa all = nabla_emit_index(t, 1);
  for (intptr_t i = 0; i < tensor->rank; i++)
    all = multiply(t, all, nabla_ssa_tensor_size(t, tensor, i));
  return all;
}

/* Returns the number of elements of requested sizes: -1 if the product wraps.
 */
static nabla_ssa count_wanted(nabla_template *t, nabla_ssa_tensor *shape) {
  nabla_ssa all = nabla_emit_index(t, 1), zero = nabla_emit_index(t, 0);
  nabla_ssa wraps = k_op(&t->emit, "arith.constant false");
  for (intptr_t i = 0; i < shape->rank; i++) {
    nabla_ssa size = nabla_ssa_tensor_size(t, shape, i);
    nabla_ssa low = ++t->emit.last, high = ++t->emit.last;
    k_line(&t->emit, "%%v%u, %%v%u = arith.mului_extended %%v%u, %%v%u : index",
           low, high, all, size);
    nabla_ssa over =
        k_op(&t->emit, "arith.cmpi ne, %%v%u, %%v%u : index", high, zero);
    wraps = k_op(&t->emit, "arith.ori %%v%u, %%v%u : i1", wraps, over);
    all = low;
  }
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index", wraps,
              nabla_emit_index(t, -1), all);
}

/* Returns the product of the static dimensions; 0 also if it wraps, because
 * then only an array without elements fits. */
static int64_t static_elements(const nabla_ssa_tensor *shape) {
  int64_t all = 1;
  bool wraps = false, empty = false;
  for (intptr_t i = 0; i < shape->rank; i++) {
    if (nabla_is_dynamic(shape->dims[i])) continue;
    empty = empty || shape->dims[i] == 0;
    wraps = wraps || __builtin_mul_overflow(all, shape->dims[i], &all);
  }
  return wraps || empty ? 0 : all;
}

static intptr_t count_dynamic(const nabla_ssa_tensor *tensor) {
  intptr_t count = 0;
  for (intptr_t i = 0; i < tensor->rank; i++)
    count += nabla_is_dynamic(tensor->dims[i]);
  return count;
}

/* Computes the one dynamic size from the number of elements. */
static void infer_size(nabla_template *t, nabla_ssa total,
                       nabla_ssa_tensor *shape) {
  int64_t rest = static_elements(shape);
  nabla_ssa divisor = nabla_emit_index(t, rest);
  nabla_ssa size = divisor; /* 0 */
  if (rest != 0)
    size = k_op(&t->emit, "arith.divui %%v%u, %%v%u : index", total, divisor);
  for (intptr_t i = 0; i < shape->rank; i++)
    if (nabla_is_dynamic(shape->dims[i])) shape->sizes[i] = size;
}

/* Copies element by element: upstream's expand_shape with more than one dynamic
 * dimension in a group makes expand-strided-metadata fail. */
static nabla_ssa_tensor gather(nabla_template *t, const nabla_ssa_tensor *flat,
                               nabla_ssa_tensor *shape) {
  for (intptr_t i = 0; i < shape->rank; i++) nabla_ssa_tensor_size(t, shape, i);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, flat->element->name);
  nabla_generic g = {.loops = shape->rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa at = nabla_emit_index(t, 0);
  for (intptr_t i = 0; i < shape->rank; i++) {
    at = multiply(t, at, shape->sizes[i]);
    at = k_op(&t->emit, "arith.addi %%v%u, %%v%u : index", at,
              nabla_generic_index(t, i));
  }
  nabla_ssa element = k_op(&t->emit, "tensor.extract %%v%u[%%v%u] : %s",
                           flat->value, at, nabla_ssa_tensor_type(flat).data);
  return nabla_generic_end(t, &g, element);
}

static bool is_empty(const nabla_ssa_tensor *tensor) {
  for (intptr_t i = 0; i < tensor->rank; i++)
    if (tensor->dims[i] == 0) return true;
  return false;
}

/* Reshapes with expand_shape and collapse_shape, unless a dimension is 0, since
 * then there are no elements to move: expand_shape divides by the static
 * dimensions of the result, and collapse_shape takes ?x0 for 0 but not for ?.
 */
static nabla_ssa_tensor rearrange(nabla_template *t, const nabla_ssa_tensor *in,
                                  nabla_ssa_tensor *shape) {
  if (is_empty(in) || is_empty(shape))
    return nabla_ssa_tensor_empty(t, shape, in->element->name);
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, in);
  return count_dynamic(shape) > 1 ? gather(t, &flat, shape)
                                  : nabla_ssa_tensor_unflatten(t, &flat, shape);
}

/* nabla-dispatch removes most of them, so that they do not keep operations
 * apart that are computed together. */
bool nabla_lower_stop_gradient(nabla_template *t) {
  nabla_template_open(t);
  return nabla_template_close(t, nabla_template_operand(t, 0).value);
}

bool nabla_lower_reshape(nabla_template *t) {
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  bool infers = t->operand_count == 1;
  if (infers &&
      mlirTypeEqual(nabla_operand_type(t->op, 0), nabla_result_type(t->op, 0)))
    return nabla_template_close(t, in.value);
  if (count_dynamic(&shape) + count_dynamic(&in) > 0) {
    nabla_ssa total = count_elements(t, &in);
    if (infers)
      infer_size(t, total, &shape);
    else
      nabla_template_take_sizes(t, 1, &shape);
    nabla_template_require(t, total, count_wanted(t, &shape));
  }
  return nabla_template_close(t, rearrange(t, &in, &shape).value);
}

/* ---- broadcast_in_dim ---- */

/* Checks a dimension of unknown size, which is repeated if it is 1 and must
 * otherwise equal that of the result. Returns whether it is repeated, as i1. */
static nabla_ssa check_unknown(nabla_template *t, nabla_ssa from,
                               nabla_ssa to) {
  nabla_ssa one = nabla_emit_index(t, 1);
  nabla_ssa repeats =
      k_op(&t->emit, "arith.cmpi eq, %%v%u, %%v%u : index", from, one);
  nabla_ssa good = k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index",
                        repeats, to, from);
  nabla_template_require(t, good, to);
  return repeats;
}

/* Maps indices of the result of a broadcast to indices of its operand. */
typedef struct broadcast {
  intptr_t map[NABLA_MAX_RANK];
  nabla_ssa repeats[NABLA_MAX_RANK]; /* known at run time; 0: see `map` */
  bool unknown;
} broadcast;

static void read_broadcast(nabla_template *t, nabla_ssa_tensor *in,
                           nabla_ssa_tensor *shape, broadcast *b) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_op_integers(t->op, "dims", dims);
  for (intptr_t i = 0; i < in->rank; i++) {
    intptr_t to = (intptr_t)dims[i];
    b->map[i] = to;
    if (in->dims[i] == 1) {
      b->map[i] = NABLA_AT(0);
    } else if (nabla_is_dynamic(in->dims[i]) && shape->dims[to] != 1) {
      b->repeats[i] = check_unknown(t, nabla_ssa_tensor_size(t, in, i),
                                    nabla_ssa_tensor_size(t, shape, to));
      b->unknown = true;
    } else {
      nabla_tensors_agree(t, in, i, shape, to);
    }
  }
}

static nabla_ssa_tensor repeat(nabla_template *t, const nabla_ssa_tensor *in,
                               const broadcast *b, nabla_ssa_tensor *shape) {
  nabla_ssa zero = nabla_emit_index(t, 0), at[NABLA_MAX_RANK];
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, shape, in->element->name);
  nabla_generic g = {.loops = shape->rank};
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  for (intptr_t i = 0; i < in->rank; i++) {
    at[i] = b->map[i] < 0 ? zero : nabla_generic_index(t, b->map[i]);
    if (b->repeats[i])
      at[i] = k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : index",
                   b->repeats[i], zero, at[i]);
  }
  nabla_ssa element = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = tensor.extract %%v%u[", element,
                 in->value);
  for (intptr_t i = 0; i < in->rank; i++)
    nabla_text_add(&t->text, "%s%%v%u", i ? ", " : "", at[i]);
  nabla_text_add(&t->text, "] : %s\n", nabla_ssa_tensor_type(in).data);
  return nabla_generic_end(t, &g, element);
}

bool nabla_lower_broadcast(nabla_template *t) {
  broadcast b = {0};
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_template_take_sizes(t, 1, &shape);
  read_broadcast(t, &in, &shape, &b);
  nabla_ssa_tensor out =
      b.unknown ? repeat(t, &in, &b, &shape) : copy(t, &in, b.map, &shape);
  return nabla_template_close(t, out.value);
}
