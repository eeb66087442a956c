/* The kernels of a fused operation for ranges of M (classes), and code that
 * chooses one of them by M; see lower_fused.h. */
#include <stdio.h>

#include "dialect/bridge.h"
#include "transforms/fused/lower_fused.h"
#include "transforms/ir/ir.h"

/* Selects, of the values %NAMEi of all classes, the one of the class that
 * contains M. */
static void add_choice(nabla_fused_lowering *l, const char *name,
                       const char *type) {
  nabla_text *text = &l->text;
  uint32_t last = l->class_count - 1;
  for (uint32_t i = last; i-- > 0;) {
    nabla_text_add(
        text, "  %%%s_of%u = arith.select %%is%u, %%%s%u, %%%s%s%u : ", name, i,
        i, name, i, name, i + 1 == last ? "" : "_of", i + 1);
    nabla_text_add(text, "%s\n", type);
  }
}

/* The suffix of the name of add_choice's result. */
const char *nabla_fused_chosen(const nabla_fused_lowering *l) {
  return l->class_count == 1 ? "0" : "_of0";
}

static void add_constant(nabla_fused_lowering *l, const char *name,
                         uint32_t class, uint64_t value) {
  nabla_text_add(&l->text, "  %%%s%u = arith.constant %llu : i64\n", name,
                 class, (unsigned long long)value);
}

/* Defines %NAMEi, the function that runs @KERNEL_SUFFIX of class i. */
static void add_address(nabla_fused_lowering *l, const char *name,
                        uint32_t class, const char *suffix) {
  nabla_text symbol = {0};
  nabla_fused_batches_name(l, class, suffix, &symbol);
  nabla_text_add(&l->text, "  %%%s%u = llvm.mlir.addressof @%s : !llvm.ptr\n",
                 name, class, symbol.data ? symbol.data : "");
  l->text.failed |= symbol.failed;
  nabla_text_deinit(&symbol);
}

/* For each class i: %isi, whether M is at most its largest; %kerneli; %graini.
 */
void nabla_fused_add_classes(nabla_fused_lowering *l) {
  for (uint32_t i = 0; i < l->class_count; i++) {
    nabla_kernel kernel;
    nabla_fused_describe(&l->classes[i], &kernel);
    add_address(l, "kernel", i, "");
    add_constant(l, "grain", i, kernel.grain);
    if (i + 1 == l->class_count) break;
    add_constant(l, "most", i, l->classes[i].m_max);
    nabla_text_add(&l->text, "  %%is%u = arith.cmpi ule, %%m, %%most%u : i64\n",
                   i, i);
  }
  add_choice(l, "kernel", "!llvm.ptr");
  add_choice(l, "grain", "i64");
}

static bool has_prepare(const nabla_fused_lowering *l) {
  for (uint32_t i = 0; i < l->class_count; i++)
    if (nabla_fused_has_prepare(&l->classes[i])) return true;
  return false;
}

/* Defines %one_sizei, the bytes of a tile of rows of x for an unknown K. */
static void add_open_size(nabla_fused_lowering *l, uint32_t class,
                          const nabla_kernel_tiles *tiles) {
  add_constant(l, "columns", class, tiles->columns);
  add_constant(l, "tile_bytes", class, tiles->bytes);
  nabla_text_add(&l->text,
                 "  %%column_tiles%u = arith.ceildivui %%k, %%columns%u : i64\n"
                 "  %%one_size%u = arith.muli %%column_tiles%u, %%tile_bytes%u "
                 ": i64\n",
                 class, class, class, class, class);
}

/* Defines, for class i, the function %preparei, the number %rowsi of rows of x
 * that it prepares (0 without such a function), and %sizei, the bytes of the
 * workspace. */
static void add_prepare_class(nabla_fused_lowering *l, uint32_t class) {
  nabla_kernel kernel;
  const nabla_fused_spec *spec = &l->classes[class];
  nabla_fused_describe(spec, &kernel);
  int has = nabla_fused_has_prepare(spec);
  uint64_t row = 0, tile = has ? kernel.workspace.rows : 1;
  if (has) (void)nabla_kernel_tiles_size(&kernel.workspace, 1, spec->k, &row);
  add_address(l, "prepare", class, has ? "_prepare" : "");
  add_constant(l, "tile", class, tile);
  if (has && l->spec.open & NABLA_OPEN_K)
    add_open_size(l, class, &kernel.workspace);
  else
    add_constant(l, "one_size", class, row);
  nabla_text_add(&l->text,
                 "  %%tiles%u = arith.ceildivui %%m, %%tile%u : i64\n"
                 "  %%size%u = arith.muli %%tiles%u, %%one_size%u : i64\n",
                 class, class, class, class, class);
  if (!has) add_constant(l, "rows", class, 0);
  if (has)
    nabla_text_add(&l->text, "  %%rows%u = arith.maxui %%m, %%m : i64\n",
                   class);
}

/* Allocates the workspace and fills it from x. */
void nabla_fused_add_prepare(nabla_fused_lowering *l) {
  if (!has_prepare(l)) return;
  for (uint32_t i = 0; i < l->class_count; i++) add_prepare_class(l, i);
  add_choice(l, "prepare", "!llvm.ptr");
  add_choice(l, "rows", "i64");
  add_choice(l, "size", "i64");
  add_choice(l, "tile", "i64");
  const char *at = nabla_fused_chosen(l);
  if (l->dims.batches)
    nabla_text_add(&l->text,
                   "  %%lines = arith.constant 64 : i64\n"
                   "  %%line_count = arith.ceildivui %%size%s, %%lines : i64\n"
                   "  %%work_step = arith.muli %%line_count, %%lines : i64\n"
                   "  %%work_size = arith.muli %%work_step, %%batches : i64\n",
                   at);
  nabla_fused_add_work_step(l);
  nabla_text_add(
      &l->text,
      "  %%bytes = arith.index_cast %%%s%s : i64 to index\n"
      "  %%work = memref.alloc(%%bytes) {alignment = 64 : i64} : memref<?xi8>\n"
      "  %%work_i = memref.extract_aligned_pointer_as_index %%work : "
      "memref<?xi8> -> index\n"
      "  %%work_q = arith.index_cast %%work_i : index to i64\n",
      l->dims.batches ? "work_size" : "size", l->dims.batches ? "" : at);
  nabla_kernel_args_store(&l->call, NABLA_ARG_WORKSPACE, "work_q");
  char prepare[32], rows[32], tile[32];
  (void)snprintf(prepare, sizeof prepare, "prepare%s", at);
  (void)snprintf(rows, sizeof rows, "rows%s", at);
  (void)snprintf(tile, sizeof tile, "tile%s", at);
  nabla_fused_add_parallel(l, prepare, rows, tile, NABLA_PARALLEL_WHOLE);
}

/* Adds the kernel of a class, as a declaration if the module has it already. */
void nabla_fused_add_kernel(nabla_fused_lowering *l, uint32_t class) {
  const char *name = l->names[class].data;
  if (!nabla_module_has(l->op, name)) {
    nabla_fused_emit(&l->classes[class], name, &l->text);
    return;
  }
  nabla_text_add(&l->text, "llvm.func @%s(!llvm.ptr, i64, i64)\n", name);
  if (nabla_fused_has_prepare(&l->classes[class]))
    nabla_text_add(&l->text, "llvm.func @%s_prepare(!llvm.ptr, i64, i64)\n",
                   name);
}

/* Emits a remark with the variants that were chosen, and with those that
 * compute in f32 although the numerics permit a larger error. */
void nabla_fused_report(const nabla_fused_lowering *l) {
  char text[320];
  int used = snprintf(text, sizeof text,
                      "%s numerics:", nabla_numerics_name(l->spec.numerics));
  for (uint32_t i = 0; i < l->class_count; i++) {
    const nabla_fused_spec *spec = &l->classes[i];
    const char *variant = nabla_fused_variant(spec);
    char range[48] = "";
    if (spec->m_max && spec->m_max == spec->m_min)
      snprintf(range, sizeof range, "%llu", (unsigned long long)spec->m_max);
    else if (spec->m_max)
      snprintf(range, sizeof range, "%llu..%llu",
               (unsigned long long)spec->m_min,
               (unsigned long long)spec->m_max);
    else
      snprintf(range, sizeof range, "%llu and more",
               (unsigned long long)spec->m_min);
    if (used < (int)sizeof text)
      used +=
          snprintf(text + used, sizeof text - (size_t)used,
                   "%s kernel '%s'%s for M = %s", i ? "," : "", variant,
                   spec->numerics == l->spec.numerics ? "" : " in f32", range);
  }
  nablaOptimizationRemark(mlirOperationGetLocation(l->op), false,
                          "KernelChosen", "nabla-lower-fused", text);
}
