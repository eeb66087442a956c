/* Deciding how each tensor of a checkpoint is stored, and writing it so. */
#ifndef NABLA_QUANTIZE_H
#define NABLA_QUANTIZE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_MAX_PATTERNS      256u /* of each kind: only, skip, rule */
#define NABLA_MAX_PATTERN_BYTES 1024u

typedef enum nabla_layout_choice {
  NABLA_CHOOSE_AUTO, /* bitsandbytes when it can hold every packed tensor */
  NABLA_CHOOSE_BITSANDBYTES,
  NABLA_CHOOSE_NABLA,
} nabla_layout_choice;

typedef enum nabla_nonfinite_policy {
  NABLA_NONFINITE_REFUSE, /* NABLA_NOT_FINITE with tensor and index         */
  NABLA_NONFINITE_KEEP,   /* a tensor with NaN or infinity stays as it is;
                             costs a first pass over the data               */
} nabla_nonfinite_policy;

/* Blocks that are no number of values. */
#define NABLA_BLOCK_ROW    1u /* one scale per row         */
#define NABLA_BLOCK_TENSOR 2u /* one scale for all values  */

/* How tensors are encoded. Zero-initialised: the defaults. mx encodings have
 * blocks of 32 and scales E8M0 by themselves; other wishes for them are errors.
 */
typedef struct nabla_settings {
  uint64_t block; /* 0: 64, and for int8 one scale per row            */
  int has_scale;
  nabla_scale_type scale; /* with has_scale; else F32                         */
  int zero_point;
  int leading; /* of weights of rank 3 and more: blocks begin anew at each
                  index of the first dimension                         */
  int search;  /* scales of least squared error                        */
} nabla_settings;

/* Tensors whose name `pattern` matches somewhere get `encoding`. What its
 * settings leave open is as in the options, where the encoding can have it. */
typedef struct nabla_quantize_rule {
  const char *pattern;            /* POSIX extended regular expression */
  const nabla_encoding *encoding; /* NULL: keep as it is    */
  nabla_settings settings;
} nabla_quantize_rule;

/* Zero-initialised: keeps everything. */
typedef struct nabla_quantize_options {
  const nabla_encoding *encoding; /* NULL: keep                            */
  nabla_settings settings;
  /* With a search: for a weight that has a tensor of its name here, the
   * importance of each column (index of the last dimension): F32 of that
   * length, finite, not negative. NULL: all weigh the same. Must outlive the
   * plan. */
  const nabla_checkpoint *importance;
  nabla_layout_choice layout;
  nabla_nonfinite_policy nonfinite;
  nabla_isa isa;
  const char *const *only; /* patterns; a tensor must match one, if any    */
  size_t only_count;
  const char *const *skip; /* patterns; a tensor that matches one is kept  */
  size_t skip_count;
  const nabla_quantize_rule *rules; /* the first match wins and overrides the
                              defaults, not `skip` and `only`              */
  size_t rule_count;
  /* The output is one file, or an index without the other files: what the
   * config.json of a folder could say of it does not count. */
  int weights_alone;
} nabla_quantize_options;

typedef struct nabla_plan nabla_plan;

/* What will happen to one logical tensor. */
typedef struct nabla_plan_row {
  size_t tensor;       /* index in the checkpoint                           */
  int quantized;       /* 0: copied as it is                                */
  nabla_format format; /* when quantized                                    */
  int search;          /* scales of least squared error                     */
  int has_importance;  /* weighted by the column                            */
  uint64_t bytes_in;
  uint64_t bytes_out;
  double bits_per_weight; /* of the output; 0 for empty tensors             */
  size_t rule;      /* index of the rule that took it, or SIZE_MAX       */
  char reason[160]; /* one clause: "default", "rule 1 'ffn'", "embedding" */
} nabla_plan_row;

typedef struct nabla_plan_totals {
  size_t tensors, quantized;
  size_t searched, weighted; /* with search, and of these with importance   */
  uint64_t bytes_in, bytes_out; /* of tensor data                           */
  nabla_layout layout;          /* of the output; DENSE if nothing is packed */
  char layout_reason[160];      /* why the layout is what it is             */
} nabla_plan_totals;

/* Decides. Reads no tensor data (but for NABLA_NONFINITE_KEEP). The checkpoint
 * must outlive the plan; the options are copied.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a bad pattern or block
 *         NABLA_UNSUPPORTED       a shape or dtype that the chosen encoding or
 *                                 layout cannot hold; names the tensor
 *         NABLA_NO_MEMORY, NABLA_IO, NABLA_CANCELLED */
NABLA_API NABLA_MUST_USE nabla_status nabla_plan_create(
    const nabla_checkpoint *checkpoint, const nabla_quantize_options *options,
    const nabla_environment *environment, nabla_plan **out, nabla_diag *diag);
NABLA_API void nabla_plan_destroy(nabla_plan *plan);

/* One row per logical tensor of the checkpoint, in its order. */
NABLA_API size_t nabla_plan_count(const nabla_plan *plan);
NABLA_API nabla_plan_row nabla_plan_get(const nabla_plan *plan, size_t row);
NABLA_API nabla_plan_totals nabla_plan_get_totals(const nabla_plan *plan);

/* What a writing call did. */
typedef struct nabla_write_summary {
  uint64_t tensors, changed;    /* changed: quantized or dequantized         */
  uint64_t bytes_in, bytes_out; /* whole files                               */
  uint32_t files;        /* of weights                                     */
  uint32_t copied;       /* other files                               */
  uint64_t copied_bytes; /* of them                                   */
  double seconds;        /* in all                                    */
  double sync_seconds;   /* of which waiting for the disk             */
} nabla_write_summary;

/* Where and how to write.
 * `path` ending in ".safetensors" is one file (shards are merged); ending in
 * ".json" an index in a new folder, which is the path's parent; anything else
 * a new folder: the shards' names are kept and an index is written when there
 * are several. */
typedef struct nabla_write_options {
  const char *path;
  int force; /* replace what is there; never an input */
  /* The other files to write with a folder (nabla/folder.h), made for the same
   * plan or for decoding; NULL: weights alone. Without use for one file. */
  const struct nabla_folder *folder;
} nabla_write_options;

/* Writes the checkpoint as planned. Streams: memory does not depend on the
 * size of the model or of its largest tensor. The bytes do not depend on the
 * number of threads nor on the instruction set.
 * @return NABLA_OK, NABLA_EXISTS, NABLA_NOT_FINITE, NABLA_UNSUPPORTED,
 *         NABLA_INVALID_ARGUMENT (output is an input), NABLA_CORRUPT (input
 *         changed meanwhile, or a packed tensor of it has a scale or code that
 *         no writer makes), NABLA_IO, NABLA_NO_MEMORY, NABLA_CANCELLED;
 *         on failure the final name is as it was before, or holds the complete
 *         output: then the text says "is in place" */
NABLA_API NABLA_MUST_USE nabla_status
nabla_plan_write(const nabla_plan *plan, const nabla_write_options *where,
                 const nabla_environment *environment, nabla_write_summary *out,
                 nabla_diag *diag);

/* Options of nabla_dequantize. */
typedef struct nabla_dequantize_options {
  int has_dtype;     /* 0: the dtype that each tensor had before packing; of
                        LLM.int8, which does not say it, that of the folder's
                        config.json, else F32                            */
  nabla_dtype dtype; /* F32, F16 or BF16, for packed tensors; dense ones are
                        copied                                           */
  nabla_isa isa;
} nabla_dequantize_options;

/* Writes a checkpoint with every packed tensor decoded.
 * @return as nabla_plan_write; NABLA_UNSUPPORTED also when a value does not
 *         fit in the dtype, naming tensor and index */
NABLA_API NABLA_MUST_USE nabla_status nabla_dequantize(
    const nabla_checkpoint *checkpoint, const nabla_dequantize_options *options,
    const nabla_write_options *where, const nabla_environment *environment,
    nabla_write_summary *out, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
