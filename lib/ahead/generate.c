/* Makes the kernels of quant/ahead/ahead.def when the libraries are
 * built.
 *
 *   generate FOLDER   writes FOLDER/<id>.o for each row, and FOLDER/table.c,
 *                     the nabla_ahead of lib/runtime/matmul/ahead.h */
#include <stdio.h>
#include <string.h>

#include "lib/compiler/kernels.h"
#include "lib/kernels/builder/text.h"
#include "lib/runtime/matmul/ahead.h"

/* A row of isa_levels.def. */
typedef struct level_of {
  const char *target;
  uint64_t first, k_most;
} level_of;

typedef struct row {
  const char *id, *level;
  const level_of *at;
  const char *ggml, *encoding; /* at most one is not NULL; both NULL: dense */
  const char *granularity_name, *scale_name, *numerics_name, *layout_name,
      *dense_name;
  uint64_t block, n, k, any;
  nabla_dtype dense;
  int zero;
  nabla_granularity granularity;
  nabla_scale_type scale;
  nabla_numerics numerics;
  nabla_weight_layout layout;
} row;

#define LEVEL(id, isa, also, first, k_most, target) \
  static const level_of id##_level = {target, first, k_most};
#include "lib/runtime/matmul/isa_levels.def"
#undef LEVEL

#define COMMON(id_, level_, n_, k_, any_, numerics_, layout_)            \
  .id = #id_, .level = #level_, .at = &level_##_level, .n = n_, .k = k_, \
  .any = any_, .numerics_name = "NABLA_NUMERICS_" #numerics_,            \
  .layout_name = "NABLA_WEIGHT_LAYOUT_" #layout_,                        \
  .numerics = NABLA_NUMERICS_##numerics_,                                \
  .layout = NABLA_WEIGHT_LAYOUT_##layout_

static const row rows[] = {
#define AHEAD(id, level, encoding_, granularity_, block_, scale_, zero_, n, k, \
              any, numerics, layout)                                           \
  {COMMON(id, level, n, k, any, numerics, layout),                             \
   .encoding = #encoding_,                                                     \
   .granularity_name = "NABLA_PER_" #granularity_,                             \
   .scale_name = "NABLA_SCALE_" #scale_,                                       \
   .block = block_,                                                            \
   .zero = zero_,                                                              \
   .granularity = NABLA_PER_##granularity_,                                    \
   .scale = NABLA_SCALE_##scale_},
#define AHEAD_GGML(id, level, ggml_, any, numerics) \
  {COMMON(id, level, 0, 0, any, numerics, IN_PLACE), .ggml = #ggml_},
#define AHEAD_DENSE(id, level, dense_, any, numerics) \
  {COMMON(id, level, 0, 0, any, numerics, IN_PLACE),  \
   .dense = NABLA_DTYPE_##dense_, .dense_name = "NABLA_DTYPE_" #dense_},
#include "quant/ahead/ahead.def"
#undef AHEAD
#undef AHEAD_GGML
#undef AHEAD_DENSE
};
#define ROWS (sizeof rows / sizeof *rows)

/* The output: parts of the table, in the order of its file. */
typedef struct output {
  const char *folder;
  nabla_text symbols, kernels, sets;
} output;

static nabla_storage storage_of(const row *r) {
  if (r->ggml) {
    const nabla_ggml *ggml = nabla_ggml_find(r->ggml);
    return (nabla_storage){.kind = NABLA_STORAGE_BLOCKS,
                           .format = {.block = ggml->elements},
                           .ggml = ggml};
  }
  if (!r->encoding) return (nabla_storage){.kind = NABLA_STORAGE_DENSE};
  return (nabla_storage){
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find(r->encoding),
                 .granularity = r->granularity,
                 .block = r->block ? r->block : r->k,
                 .scale = r->scale,
                 .zero_point = r->zero}};
}

static uint64_t largest_k(const row *r) {
  return r->any ? r->at->k_most : r->k;
}

static nabla_fused_spec spec_of(const row *r) {
  return (nabla_fused_spec){.w = storage_of(r),
                            .w_stored = r->dense,
                            .storage_elements = r->n * r->k,
                            .m_min = r->at->first,
                            .n = r->n,
                            .k = largest_k(r),
                            .stride_n = r->k,
                            .stride_k = 1,
                            .any_size = r->any,
                            .numerics = r->numerics,
                            .layout = r->layout,
                            .x_type = NABLA_DTYPE_F32,
                            .y_type = NABLA_DTYPE_F32,
                            .w_type = NABLA_DTYPE_F32};
}

static void add_tiles(nabla_text *text, const nabla_kernel_tiles *tiles) {
  nabla_text_add(text, ", {%uu, %uu, %uu}", tiles->rows, tiles->columns,
                 tiles->bytes);
}

/* Writes one kernel of a row: declarations of its symbols, and its description.
 */
static void add_kernel(output *out, const row *r, uint32_t i,
                       const nabla_fused_spec *spec) {
  static const char *const suffixes[] = NABLA_KERNEL_SUFFIXES;
  nabla_kernel kernel;
  nabla_fused_describe(spec, &kernel);
  nabla_text_add(&out->kernels, "    {{");
  for (uint32_t part = 0; part < NABLA_KERNEL_PARTS; part++) {
    const char *comma = part ? ", " : "";
    if (!nabla_kernel_has_part(spec, part)) {
      nabla_text_add(&out->kernels, "%sNULL", comma);
      continue;
    }
    nabla_text_add(&out->symbols,
                   "void nabla_entry_ahead_%s_%u%s(const uint64_t *, uint64_t, "
                   "uint64_t);\n",
                   r->id, i, suffixes[part]);
    nabla_text_add(&out->kernels, "%snabla_entry_ahead_%s_%u%s", comma, r->id,
                   i, suffixes[part]);
  }
  add_tiles(&out->kernels, &kernel.workspace);
  add_tiles(&out->kernels, &kernel.packed);
  nabla_text_add(&out->kernels, ", %uu, %uu}, \"%s, %s\", UINT64_C(%llu)},\n",
                 kernel.grain, kernel.form, nabla_fused_variant(spec), r->level,
                 (unsigned long long)(spec->m_max ? spec->m_max : UINT64_MAX));
}

_Static_assert(NABLA_FUSED_CLASSES_MAX + 1 <= NABLA_MATMUL_MAX_KERNELS,
               "a plan has room for a kernel of each class, one cut in two");

static void add_set(output *out, const row *r,
                    const nabla_kernel_object *kernels) {
  nabla_text_add(&out->kernels, "static const nabla_provided_kernel %s[] = {\n",
                 r->id);
  for (uint32_t i = 0; i < kernels->count; i++)
    add_kernel(out, r, i, &kernels->specs[i]);
  nabla_text_add(&out->kernels, "};\n");
  if (r->ggml)
    nabla_text_add(&out->sets,
                   "    {.kind = NABLA_STORAGE_BLOCKS, .ggml = \"%s\",\n",
                   r->ggml);
  else if (!r->encoding)
    nabla_text_add(&out->sets,
                   "    {.kind = NABLA_STORAGE_DENSE, .dense = %s,\n",
                   r->dense_name);
  else
    nabla_text_add(&out->sets,
                   "    {.kind = NABLA_STORAGE_PLANES, .encoding = \"%s\",\n"
                   "     .granularity = %s, .scale = %s,\n"
                   "     .block = %llu, .zero_point = %d,\n",
                   r->encoding, r->granularity_name, r->scale_name,
                   (unsigned long long)r->block, r->zero);
  nabla_text_add(&out->sets,
                 "     .n = %llu, .k = %llu, .any_size = %llu, .first = %llu,\n"
                 "     .numerics = %s, .layout = %s,\n"
                 "     .level = NABLA_LEVEL_%s, .count = %u, .kernels = %s},\n",
                 (unsigned long long)r->n, (unsigned long long)largest_k(r),
                 (unsigned long long)r->any,
                 (unsigned long long)kernels->specs[0].m_min, r->numerics_name,
                 r->layout_name, r->level, kernels->count, r->id);
}

static int write_file(const char *folder, const char *name, const char *suffix,
                      const void *data, size_t size) {
  nabla_text path = {0};
  nabla_text_add(&path, "%s/%s%s", folder, name, suffix);
  FILE *file = path.failed ? NULL : fopen(path.data, "wb");
  int good = file && fwrite(data, 1, size, file) == size;
  if (file) good = !fclose(file) && good;
  if (!good) (void)fprintf(stderr, "generate: cannot write %s\n", name);
  nabla_text_deinit(&path);
  return good;
}

/* Sets the first M of a level that serves many rows only. Such levels exist for
 * tiles: they begin with the first M whose kernel uses tiles. */
static void skip_few(nabla_fused_spec *spec, const nabla_machine *target) {
  nabla_fused_spec classes[NABLA_FUSED_CLASSES_MAX], all = *spec;
  all.features = nabla_machine_kernels(target, 1);
  const uint32_t count = nabla_fused_classes(&all, classes);
  for (uint32_t i = 0; i < count && spec->m_min > 1; i++) {
    const char *instruction = nabla_fused_instruction(&classes[i]);
    if (!instruction || strncmp(instruction, "td", 2)) continue;
    spec->m_min = classes[i].m_min;
    break;
  }
}

/* Returns whether kernels keep the error bounds of docs/COMPILER.md up to the
 * largest K. */
static int keep_bounds(const row *r, const nabla_kernel_object *kernels) {
  const uint64_t k = largest_k(r);
  for (uint32_t i = 0; i < kernels->count; i++)
    if (k && r->numerics == NABLA_NUMERICS_F32 && kernels->specs[i].m_min > 4 &&
        nabla_fused_accumulation_depth(&kernels->specs[i]) > 256 + k / 256) {
      (void)fprintf(stderr, "generate: %s: sums are too long for K = %llu\n",
                    r->id, (unsigned long long)k);
      return 0;
    }
  return 1;
}

static int make_row(nabla_context *context, output *out, const row *r) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_machine *target = NULL;
  nabla_kernel_object kernels = {0};
  nabla_text prefix = {0};
  nabla_fused_spec spec = spec_of(r);
  nabla_text_add(&prefix, "ahead_%s_", r->id);
  nabla_status status =
      prefix.failed ? NABLA_NO_MEMORY
                    : nabla_machine_create(r->at->target, &target, &diag);
  if (target) {
    target->runs_elsewhere = 1;
    skip_few(&spec, target);
  }
  if (!status)
    status = nabla_kernels_compile(context, target, &spec, prefix.data,
                                   &kernels, &diag);
  int good = !status;
  if (status)
    (void)fprintf(stderr, "generate: %s: %s\n", r->id, diag.what);
  else
    good =
        keep_bounds(r, &kernels) &&
        write_file(out->folder, r->id, ".o", LLVMGetBufferStart(kernels.object),
                   LLVMGetBufferSize(kernels.object));
  if (good) add_set(out, r, &kernels);
  if (kernels.object) LLVMDisposeMemoryBuffer(kernels.object);
  nabla_machine_destroy(target);
  nabla_text_deinit(&prefix);
  return good;
}

static int write_table(const output *out) {
  nabla_text all = {0};
  nabla_text_add(&all,
                 "/* Made by lib/ahead/generate.c. */\n"
                 "#include \"lib/runtime/matmul/ahead.h\"\n\n"
                 "%s\n%s\n"
                 "static const nabla_ahead_set sets[] = {\n%s};\n\n"
                 "const nabla_ahead_table nabla_ahead = "
                 "{sets, sizeof sets / sizeof *sets};\n",
                 out->symbols.data, out->kernels.data, out->sets.data);
  const int good = !all.failed && !out->symbols.failed &&
                   !out->kernels.failed && !out->sets.failed &&
                   write_file(out->folder, "table", ".c", all.data, all.size);
  nabla_text_deinit(&all);
  return good;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    (void)fprintf(stderr, "usage: generate FOLDER\n");
    return 2;
  }
  output out = {.folder = argv[1]};
  nabla_context context;
  nabla_context_init(&context, NULL, NULL);
  int good = 1;
  for (size_t i = 0; i < ROWS && good; i++)
    good = make_row(&context, &out, &rows[i]);
  nabla_context_deinit(&context);
  good = good && write_table(&out);
  nabla_text_deinit(&out.symbols);
  nabla_text_deinit(&out.kernels);
  nabla_text_deinit(&out.sets);
  return !good;
}
