/* What implicit arrays are made of: the format of their storage, and their
 * components, which may be implicit themselves. See encoding.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/custom_encoding.h"
#include "dialect/encoding/encoding.h"
#include "nabla/dynamic8.h"

nabla_format nabla_implicit_format(MlirType type) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  nabla_encoding_info info = nabla_encoding_read(p.encoding);
  nabla_format format = {.encoding = info.row,
                         .granularity = info.granularity,
                         .block = info.block ? info.block : 1,
                         .scale = info.scale,
                         .zero_point = info.zero_point};
  if (info.granularity != NABLA_PER_BLOCK) {
    int64_t rows = p.storageRank >= 0 ? p.storage[0] : p.shape[0];
    uint64_t stored = nabla_implicit_storage_elements(type);
    if (info.granularity == NABLA_PER_TENSOR) rows = 1;
    format.block = rows > 0 ? stored / (uint64_t)rows : 0;
    if (format.block == 0) format.block = 1; /* no elements */
  }
  return format;
}

static MlirType scale_element(MlirContext context, nabla_scale_type type) {
  if (type == NABLA_SCALE_E8M0) return mlirIntegerTypeGet(context, 8);
  if (type == NABLA_SCALE_F16) return mlirF16TypeGet(context);
  if (type == NABLA_SCALE_BF16) return mlirBF16TypeGet(context);
  return mlirF32TypeGet(context);
}

/* A component of `count` elements, a tensor of rank 1. */
static nabla_implicit_component list(const char *name, uint64_t count,
                                     MlirType element) {
  int64_t size = (int64_t)count;
  return (nabla_implicit_component){
      name, size, element,
      mlirRankedTensorTypeGet(1, &size, element, mlirAttributeGetNull())};
}

/* `count` scales, f32 or what stands for them. */
static nabla_implicit_component scales_of(MlirContext context,
                                          const nabla_encoding_info *info,
                                          uint64_t count) {
  nabla_implicit_component scales =
      list("scales", count, scale_element(context, info->scale));
  nablaImplicitType nested = {.rank = 1,
                              .shape = &scales.count,
                              .elementType = scales.element,
                              .encoding = info->nested};
  if (!mlirAttributeIsNull(info->nested))
    scales.type = nablaImplicitTypeGet(context, &nested);
  return scales;
}

static uint32_t packed_components(MlirType type,
                                  const nabla_encoding_info *info,
                                  nabla_implicit_component *out) {
  MlirContext context = mlirTypeGetContext(type);
  MlirType i8 = mlirIntegerTypeGet(context, 8);
  nabla_format format = nabla_implicit_format(type);
  uint64_t stored = nabla_implicit_storage_elements(type);
  nabla_packed_size size = {0};
  if (nabla_format_size(&format, stored, &size, NULL))
    size = (nabla_packed_size){0}; /* the verifier has seen the sizes */
  out[0] = list("codes", size.code_bytes, i8);
  out[1] = scales_of(context, info, size.scales);
  if (info->zero_point) out[2] = list("zero_points", size.scales, i8);
  return info->zero_point ? 3 : 2;
}

static uint32_t dynamic8_components(MlirType type,
                                    const nabla_encoding_info *info,
                                    nabla_implicit_component *out) {
  MlirContext context = mlirTypeGetContext(type);
  MlirType f32 = mlirF32TypeGet(context);
  uint64_t stored = nabla_implicit_storage_elements(type);
  out[0] = list("codes", stored, mlirIntegerTypeGet(context, 8));
  out[1] = scales_of(context, info,
                     stored / info->block + (stored % info->block != 0));
  out[2] = list("offset", 1, f32);
  out[2].type = mlirRankedTensorTypeGet(0, NULL, f32, mlirAttributeGetNull());
  out[3] = list("map", NABLA_DYNAMIC8_CODES, f32);
  return 4;
}

static uint32_t ggml_components(MlirType type, const nabla_encoding_info *info,
                                nabla_implicit_component *out) {
  uint64_t bytes = 0;
  if (nabla_ggml_size(info->ggml, nabla_implicit_storage_elements(type), &bytes,
                      NULL))
    bytes = 0; /* the verifier has seen the size */
  out[0] =
      list("blocks", bytes, mlirIntegerTypeGet(mlirTypeGetContext(type), 8));
  return 1;
}

static uint32_t lora_components(const nablaImplicit *p,
                                const nabla_encoding_info *info,
                                nabla_implicit_component *out) {
  MlirContext context = mlirTypeGetContext(p->elementType);
  const int64_t *storage = p->storageRank >= 0 ? p->storage : p->shape;
  int64_t a[2] = {info->rank, storage[1]}, b[2] = {storage[0], info->rank};
  nablaImplicitType base = {.rank = 2,
                            .shape = storage,
                            .elementType = p->elementType,
                            .encoding = info->base};
  out[0] = list("base", (uint64_t)(storage[0] * storage[1]), p->elementType);
  out[0].type = nablaImplicitTypeGet(context, &base);
  out[1] = list("a", (uint64_t)(a[0] * a[1]), p->elementType);
  out[1].type =
      mlirRankedTensorTypeGet(2, a, p->elementType, mlirAttributeGetNull());
  out[2] = list("b", (uint64_t)(b[0] * b[1]), p->elementType);
  out[2].type =
      mlirRankedTensorTypeGet(2, b, p->elementType, mlirAttributeGetNull());
  return 3;
}

uint32_t nabla_implicit_components(
    MlirType type, nabla_implicit_component out[NABLA_MAX_PARTS]) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  nabla_encoding_info info = nabla_encoding_read(p.encoding);
  if (info.kind == NABLA_KIND_PACKED)
    return packed_components(type, &info, out);
  if (info.kind == NABLA_KIND_DYNAMIC8)
    return dynamic8_components(type, &info, out);
  if (info.kind == NABLA_KIND_LORA) return lora_components(&p, &info, out);
  if (info.kind == NABLA_KIND_GGML) return ggml_components(type, &info, out);
  if (info.kind == NABLA_KIND_CUSTOM)
    return p.storageRank < 0
               ? nabla_custom_components(p.encoding, p.rank, p.shape, out)
               : nabla_custom_components(p.encoding, p.storageRank, p.storage,
                                         out);
  return 0;
}

MlirType nabla_component_type(const nabla_implicit_component *component) {
  return component->type;
}
