/* Choosing among the variants; see variants.h. */
#include "lib/kernels/variants.h"

#include <string.h>

static const nabla_kernel_variant *const variants[] = {
#define VARIANT(id, summary) &nabla_variant_##id,
#include "lib/kernels/variants.def"
#undef VARIANT
};
#define VARIANTS (sizeof variants / sizeof *variants)

/* The largest M of each class, and an M that stands for it: GEMV, two and a few
 * rows (bound by memory), some (by decoding), more, and many (by arithmetic).
 */
static const struct {
  uint64_t last, typical;
} classes[NABLA_FUSED_CLASSES_MAX] = {{1, 1}, {2, 2},   {4, 4},
                                      {8, 7}, {31, 16}, {UINT64_MAX, 128}};

int nabla_spec_is_row(const nabla_fused_spec *spec) {
  if (spec->any_size) return 1;
  if (spec->open) return spec->stride_k == 1;
  if (spec->k <= 1 && spec->stride_n == 1) return 0;
  return spec->stride_k == 1 || spec->k <= 1;
}

uint64_t nabla_spec_row_stride(const nabla_fused_spec *spec) {
  return spec->n > 1 || spec->open ? spec->stride_n : 0;
}

uint64_t nabla_spec_last_m(const nabla_fused_spec *spec) {
  return spec->m_max ? spec->m_max : UINT64_MAX;
}

int nabla_spec_is_dense(const nabla_fused_spec *spec) {
  return spec->w.kind == NABLA_STORAGE_DENSE;
}

nabla_x_layout nabla_spec_x_layout(const nabla_fused_spec *spec) {
  return nabla_spec_last_m(spec) == 1 ? NABLA_X_ROWS : spec->x_layout;
}

/* For large K the accumulation chain of the kernel for M = 1 would exceed the
 * documented error bound: the kernel for M = 2 is used there. */
nabla_fused_spec nabla_fused_exact(const nabla_fused_spec *spec) {
  nabla_fused_spec exact = *spec;
  exact.variant = nabla_variant_gemv_k_lanes.name;
  exact.m_min = exact.m_max = spec->k / 64 + 8 > 256 + spec->k / 256 ? 2 : 1;
  exact.layout = NABLA_WEIGHT_LAYOUT_IN_PLACE;
  return exact;
}

/* An M of the spec's range, at which the costs of variants are compared. */
static uint64_t typical_m(const nabla_fused_spec *spec) {
  uint32_t class = 0;
  while (classes[class].last < spec->m_min) class++;
  uint64_t m = classes[class].typical, last = nabla_spec_last_m(spec);
  if (m < spec->m_min) m = spec->m_min;
  return m > last ? last : m;
}

uint32_t nabla_fused_class_of(const nabla_fused_spec *list, uint32_t count,
                              uint64_t m) {
  uint32_t i = 0;
  while (i + 1 < count && nabla_spec_last_m(&list[i]) < m) i++;
  return i;
}

/* Numerics allow errors and do not require them: a variant that computes in f32
 * serves bf16 and int8 too, where it is faster or no other applies. */
static int serves(const nabla_kernel_variant *variant,
                  const nabla_fused_spec *spec) {
  nabla_fused_spec exact = *spec;
  nabla_x_layout x = nabla_spec_x_layout(spec);
  if ((x == NABLA_X_STRIDED && !variant->takes_strided_x) ||
      (x == NABLA_X_COLUMNS && !variant->takes_columns_of_x) ||
      (spec->open & ~variant->takes_open))
    return 0;
  exact.numerics = NABLA_NUMERICS_F32;
  return variant->applies(spec) || variant->applies(&exact);
}

const nabla_kernel_variant *nabla_variant_of(const nabla_fused_spec *spec) {
  const nabla_kernel_variant *best = NULL;
  double least = 0;
  uint64_t m = typical_m(spec);
  for (size_t i = 0; i < VARIANTS; i++) {
    if (spec->variant && strcmp(spec->variant, variants[i]->name)) continue;
    if (spec->w.ggml && !variants[i]->takes_blocks) continue;
    if (!serves(variants[i], spec)) continue;
    double cost = variants[i]->cost(spec, m);
    if (best && cost >= least) continue;
    best = variants[i];
    least = cost;
  }
  return best;
}

/* Whether `variant` is the best for two neighbouring ranges joined, and has no
 * dedicated kernel for the lower one alone. */
static int serves_both(const nabla_fused_spec *low,
                       const nabla_fused_spec *high,
                       const nabla_kernel_variant *variant) {
  nabla_fused_spec both = *low;
  both.m_max = high->m_max;
  if (variant && nabla_spec_last_m(low) <= variant->dedicated_max_m &&
      nabla_spec_last_m(high) > variant->dedicated_max_m)
    return 0;
  return low->numerics == high->numerics && nabla_variant_of(&both) == variant;
}

static uint32_t cut(const nabla_fused_spec *spec,
                    nabla_fused_spec out[NABLA_FUSED_CLASSES_MAX]) {
  uint64_t first = spec->m_min, last = nabla_spec_last_m(spec);
  uint32_t count = 0;
  const nabla_kernel_variant *before = NULL;
  for (uint32_t i = 0; i < NABLA_FUSED_CLASSES_MAX && first <= last; i++) {
    if (classes[i].last < first) continue;
    nabla_fused_spec one = *spec;
    one.m_min = first;
    one.m_max = classes[i].last < last ? classes[i].last : last;
    if (one.m_max == UINT64_MAX) one.m_max = 0;
    const nabla_kernel_variant *variant = nabla_variant_of(&one);
    if (variant && !variant->applies(&one)) one.numerics = NABLA_NUMERICS_F32;
    if (count && variant == before &&
        serves_both(&out[count - 1], &one, variant))
      out[count - 1].m_max = one.m_max;
    else
      out[count++] = one;
    before = variant;
    if (classes[i].last == UINT64_MAX) break;
    first = classes[i].last + 1;
  }
  return count;
}

/* A single M above 1 gets the kernel of its class. */
uint32_t nabla_fused_classes(const nabla_fused_spec *spec,
                             nabla_fused_spec out[NABLA_FUSED_CLASSES_MAX]) {
  nabla_fused_spec any = *spec;
  if (spec->m_min != spec->m_max || spec->m_min <= 1) return cut(spec, out);
  any.m_min = 2;
  any.m_max = 0;
  uint32_t count = cut(&any, out);
  out[0] = out[nabla_fused_class_of(out, count, spec->m_min)];
  return 1;
}

const char *nabla_fused_variant(const nabla_fused_spec *spec) {
  const nabla_kernel_variant *variant = nabla_variant_of(spec);
  return variant ? variant->name : "none";
}

const char *nabla_fused_instruction(const nabla_fused_spec *spec) {
  const nabla_kernel_variant *variant = nabla_variant_of(spec);
  return variant ? variant->instruction : NULL;
}

void nabla_fused_describe(const nabla_fused_spec *spec, nabla_kernel *out) {
  *out = (nabla_kernel){.grain = 1};
  nabla_variant_of(spec)->describe(spec, out);
}

int nabla_fused_has_prepare(const nabla_fused_spec *spec) {
  return nabla_variant_of(spec)->pack_a != NULL;
}

int nabla_fused_has_prepack(const nabla_fused_spec *spec) {
  return spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED &&
         nabla_variant_of(spec)->prepack != NULL;
}

uint64_t nabla_fused_accumulation_depth(const nabla_fused_spec *spec) {
  return nabla_variant_of(spec)->accumulation_depth(spec);
}
