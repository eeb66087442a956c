/* How a packed tensor is spread over the tensors of a safetensors file, in the
 * two layouts of docs/FORMAT.md. Rules are cited as (B..) for bitsandbytes,
 * (I..) for LLM.int8 and (N..) for the Nabla layout. */
#ifndef NABLA_QUANT_FORMATS_PACKED_H
#define NABLA_QUANT_FORMATS_PACKED_H

#include "lib/base/memory.h"
#include "nabla/checkpoint.h"

/* The newest version of the Nabla layout that this build reads (N2). */
#define NABLA_LAYOUT_VERSION 2u

/* Keys of __metadata__ that label a file (F2). */
#define NABLA_LABEL_PREFIX  "nabla."
#define NABLA_LABEL_LAYOUT  "nabla.layout"
#define NABLA_LABEL_VERSION "nabla.version"

#define NABLA_SUFFIX_STATE  ".quant_state.bitsandbytes__" /* then nf4 or fp4 */
#define NABLA_SUFFIX_ABSMAX ".absmax"
#define NABLA_SUFFIX_MAP    ".quant_map"
#define NABLA_SUFFIX_NESTED_ABSMAX ".nested_absmax"
#define NABLA_SUFFIX_NESTED_MAP    ".nested_quant_map"
#define NABLA_SUFFIX_WEIGHT        "weight"
#define NABLA_SUFFIX_SCB           "SCB"
#define NABLA_SUFFIX_ROW_FORMAT    "weight_format"
#define NABLA_SUFFIX_FORMAT        ".nabla.format"
#define NABLA_SUFFIX_SCALES        ".nabla.scales"
#define NABLA_SUFFIX_ZERO_POINTS   ".nabla.zero_points"
#define NABLA_SUFFIX_NESTED_SCALES ".nabla.nested_scales"
#define NABLA_SUFFIX_NESTED_TABLE  ".nabla.nested_map"
#define NABLA_SUFFIX_NESTED_OFFSET ".nabla.nested_offset"

typedef enum nabla_component_kind {
  NABLA_COMPONENT_CODES,
  NABLA_COMPONENT_SCALES,
  NABLA_COMPONENT_DESCRIPTION, /* JSON text                     */
  NABLA_COMPONENT_TABLE,       /* the 16 values of a 4-bit code */
  NABLA_COMPONENT_ROW_FORMAT,  /* LLM.int8: one byte, 0 = row   */
  NABLA_COMPONENT_ZERO_POINTS,
  NABLA_COMPONENT_NESTED_SCALES, /* dynamic8: absmax of the scales */
  NABLA_COMPONENT_NESTED_MAP,
  NABLA_COMPONENT_NESTED_OFFSET,
  NABLA_COMPONENT_KINDS,
} nabla_component_kind;

#define NABLA_MAX_COMPONENTS 8

/* One file tensor of a packed tensor. Its name is the first `stem` bytes of
 * the weight's name followed by `suffix`. */
typedef struct nabla_component {
  nabla_component_kind kind;
  size_t stem;
  const char *suffix;
  nabla_dtype dtype;
  uint32_t rank;
  const uint64_t *shape; /* the weight's, or `own_shape` */
  uint64_t own_shape[2];
  uint64_t bytes;
} nabla_component;

typedef struct nabla_components {
  nabla_component item[NABLA_MAX_COMPONENTS];
  size_t count;
} nabla_components;

/* The suffix of a quant_state for the row of nabla_encodings() (B1). */
const char *nabla_state_suffix(size_t row);

/* NULL when `layout` can hold `tensor` in `format`, else why not. */
const char *nabla_layout_objection(nabla_layout layout,
                                   const nabla_tensor *tensor,
                                   const nabla_format *format);

/* The lowest version of the Nabla layout that can say `format` (N2). */
uint32_t nabla_layout_version(const nabla_format *format);

/* Says whether scales and codes of `format` need a nested description that is
 * known only when all scales are: bitsandbytes' nested_offset (B5). */
int nabla_description_is_late(const nabla_format *format, nabla_layout layout);

/* Lists the components of `tensor` in `format`; `layout` must not object. The
 * result points into `tensor` and into itself: do not copy it. */
NABLA_MUST_USE nabla_status nabla_components_of(const nabla_tensor *tensor,
                                                const nabla_format *format,
                                                nabla_layout layout,
                                                nabla_components *out,
                                                nabla_diag *diag);

/* The JSON text of a description: at most 32 dimensions of 20 digits. */
typedef struct nabla_description_text {
  char data[1024];
  size_t size;
} nabla_description_text;

/* Writes the description of `tensor` in `format`. Its size does not depend on
 * `offset`, the nested_offset of bitsandbytes: spaces follow the text. */
NABLA_MUST_USE nabla_status nabla_description_write(
    const nabla_tensor *tensor, const nabla_format *format, nabla_layout layout,
    float offset, nabla_description_text *out, nabla_diag *diag);

/* What a description says. */
typedef struct nabla_description {
  nabla_format format; /* encoding NULL when this build lacks it  */
  nabla_dtype dtype;
  uint32_t rank;
  uint64_t shape[NABLA_TENSOR_FILE_MAX_RANK];
  uint64_t elements;
  uint64_t nested_block; /* bitsandbytes' double quantization:     */
  float nested_offset;   /* format.scale is DYNAMIC8               */
  char unsupported[96];  /* "", or why this build cannot decode it */
} nabla_description;

/* The text to parse, and what is known about it from outside. */
typedef struct nabla_description_source {
  nabla_layout layout;
  const char *encoding; /* bitsandbytes: the name that the tensor's suffix
                           gives, which the text must repeat; else NULL */
  const void *text;
  size_t size;
  uint64_t origin; /* of the text in its file, for errors */
} nabla_description_source;

/* @return NABLA_CORRUPT, NABLA_TOO_LARGE, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_description_parse(
    const nabla_allocator *allocator, const nabla_description_source *source,
    nabla_description *out, nabla_diag *diag);

#endif
