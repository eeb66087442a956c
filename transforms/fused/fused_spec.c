/* See fused_spec.h. */
#include "transforms/fused/fused_spec.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/encoding/encoding.h"
#include "transforms/ir/ir.h"

bool nabla_fused_dtype(MlirType type, nabla_dtype *out) {
  if (mlirTypeIsAF32(type))
    *out = NABLA_DTYPE_F32;
  else if (mlirTypeIsAF16(type))
    *out = NABLA_DTYPE_F16;
  else if (mlirTypeIsABF16(type))
    *out = NABLA_DTYPE_BF16;
  else
    return false;
  return true;
}

const char *nabla_fused_weight_of(MlirType w, nabla_features features,
                                  nabla_fused_spec *out) {
  *out = (nabla_fused_spec){.features = features};
  if (!nabla_fused_dtype(nabla_array_element(w), &out->w_type))
    return "kernels compute in f32, f16 and bf16";
  nabla_encoding_info info = nabla_implicit_encoding(w);
  if (!info.row && !info.ggml) return "only codes with scales have kernels";
  out->w = (nabla_storage){
      .kind = info.ggml ? NABLA_STORAGE_BLOCKS : NABLA_STORAGE_PLANES,
      .format = nabla_implicit_format(w),
      .ggml = info.ggml};
  out->storage_elements = nabla_implicit_storage_elements(w);
  return NULL;
}

/* All of the storage in order, whose absmax is dense. */
bool nabla_fused_nested_scales(MlirType scales, nabla_fused_spec *out) {
  nabla_encoding_info info = nabla_implicit_encoding(scales);
  nabla_strided view = nabla_implicit_strided(scales);
  if (info.kind != NABLA_KIND_DYNAMIC8 || !mlirAttributeIsNull(info.nested) ||
      !mlirTypeIsAF32(nabla_array_element(scales)) || view.rank != 1 ||
      view.offset != 0 || view.strides[0] != 1 ||
      (uint64_t)view.shape[0] != nabla_implicit_storage_elements(scales))
    return false;
  if (info.block > UINT32_MAX) return false;
  out->w.format.scale = NABLA_SCALE_DYNAMIC8;
  out->w.nested_block = (uint32_t)info.block;
  return true;
}

const char *nabla_fused_spec_of(const nabla_target *target, MlirType x,
                                MlirType w, nabla_features features,
                                nabla_fused_spec *out) {
  const char *objection = nabla_fused_weight_of(w, features, out);
  nabla_strided view = nabla_implicit_strided(w);
  if (objection) return objection;
  if (!nabla_fused_dtype(nabla_array_element(x), &out->x_type))
    return "kernels compute in f32, f16 and bf16";
  if (view.rank != 2) return "the weight is not of rank 2";
  out->y_type = out->x_type;
  out->n = (uint64_t)view.shape[0];
  out->k = (uint64_t)view.shape[1];
  out->stride_n = (uint64_t)view.strides[0];
  out->stride_k = (uint64_t)view.strides[1];
  out->offset = (uint64_t)view.offset;
  int64_t m = nabla_array_rank(x) == 2 ? nabla_array_dim(x, 0) : 1;
  if (!nabla_is_dynamic(m)) out->m_min = out->m_max = (uint64_t)m;
  return target->objection(out);
}

static const char *const step_names[] = {
    [NABLA_STEP_BIAS] = "bias",
    [NABLA_STEP_ADD] = "add",
    [NABLA_STEP_RELU] = "relu",
    [NABLA_STEP_SILU] = "silu",
};
#define STEPS (sizeof step_names / sizeof *step_names)

bool nabla_fused_spec_epilogue(MlirOperation fused, nabla_fused_spec *out) {
  MlirAttribute steps =
      mlirOperationGetAttributeByName(fused, nabla_ref("epilogue"));
  intptr_t count =
      mlirAttributeIsNull(steps) ? 0 : mlirArrayAttrGetNumElements(steps);
  if (count > NABLA_FUSED_MAX_STEPS) return false;
  for (intptr_t i = 0; i < count; i++) {
    MlirStringRef name =
        mlirStringAttrGetValue(mlirArrayAttrGetElement(steps, i));
    uint32_t step = 0;
    while (step < STEPS && (strlen(step_names[step]) != name.length ||
                            memcmp(step_names[step], name.data, name.length)))
      step++;
    if (step == STEPS) return false;
    out->steps[out->step_count++] = (nabla_fused_step)step;
  }
  return true;
}

void nabla_fused_name(const nabla_fused_spec *s, nabla_text *out) {
  nabla_text_add(out, "nabla_fused_");
  if (s->w.ggml)
    nabla_text_add(out, "ggml_%s", s->w.ggml->name);
  else
    nabla_text_add(out, "%s",
                   s->w.format.encoding ? s->w.format.encoding->name : "dense");
  nabla_text_add(out, "_%s%llu_%llux%llu",
                 s->w.format.granularity == NABLA_PER_ROW ? "row" : "b",
                 (unsigned long long)s->w.format.block,
                 (unsigned long long)s->n, (unsigned long long)s->k);
  nabla_text_add(out, "_of%llu_at%llu_%llu_%llu",
                 (unsigned long long)s->storage_elements,
                 (unsigned long long)s->offset, (unsigned long long)s->stride_n,
                 (unsigned long long)s->stride_k);
  nabla_text_add(out, "_%s_%s", nabla_dtype_name(s->x_type),
                 nabla_dtype_name(s->w_type));
  if (s->w.format.scale != NABLA_SCALE_F32)
    nabla_text_add(out, "_scale%s",
                   nabla_scale_info_of(s->w.format.scale)->name);
  if (s->w.format.zero_point) nabla_text_add(out, "_zero");
  if (s->x_layout)
    nabla_text_add(out,
                   s->x_layout == NABLA_X_COLUMNS ? "_columns" : "_strided");
  if (s->w.nested_block)
    nabla_text_add(out, "_nested%llu", (unsigned long long)s->w.nested_block);
  if (s->open) nabla_text_add(out, "_open%u", (unsigned)s->open);
  if (s->numerics) nabla_text_add(out, "_%s", nabla_numerics_name(s->numerics));
  if (s->m_min > 0 || s->m_max)
    nabla_text_add(out, "_m%llu", (unsigned long long)s->m_min);
  if (s->m_max) nabla_text_add(out, "to%llu", (unsigned long long)s->m_max);
  for (uint32_t i = 0; i < s->step_count; i++)
    nabla_text_add(out, "_%s", step_names[s->steps[i]]);
}
