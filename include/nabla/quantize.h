/* Plans how each tensor of a checkpoint is stored, and writes the checkpoint
 * according to the plan. */
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
  NABLA_NONFINITE_REFUSE, /* fails with NABLA_NOT_FINITE, tensor and index  */
  NABLA_NONFINITE_KEEP,   /* a tensor with NaN or infinity is not quantized;
                             costs an additional pass over the data         */
} nabla_nonfinite_policy;

/* Values of nabla_settings.block that are not a number of values. */
#define NABLA_BLOCK_ROW    1u /* one scale per row         */
#define NABLA_BLOCK_TENSOR 2u /* one scale for all values  */

/* How tensors are encoded; zero-initialised: the defaults. mx encodings always
 * have blocks of 32 and E8M0 scales; any other block or scale type for them is
 * an error. */
typedef struct nabla_settings {
  uint64_t block; /* values in a block; 0: 64, but int8: one scale per row */
  int has_scale;
  nabla_scale_type scale; /* with has_scale; else F32                         */
  int zero_point;
  int leading; /* weights of rank 3 or more: a new block starts at each
                  index of the first dimension                         */
  int search;  /* choose the scales with the least squared error       */
} nabla_settings;

/* A tensor gets `encoding` if `pattern` matches anywhere in its name. Settings
 * that are 0 here come from the options, if the encoding supports them. */
typedef struct nabla_quantize_rule {
  const char *pattern;            /* POSIX extended regular expression */
  const nabla_encoding *encoding; /* NULL: keep as it is    */
  nabla_settings settings;
} nabla_quantize_rule;

/* What to quantize, and how. Members that are 0 quantize no tensor. */
typedef struct nabla_quantize_options {
  size_t struct_size; /* sizeof(nabla_quantize_options)                    */
  const nabla_encoding *encoding; /* NULL: keep                            */
  nabla_settings settings;
  /* Used by `search`: the importance of each column of a weight (index of its
   * last dimension), in an F32 tensor with the weight's name and one element
   * per column, finite and not negative. Weights without one, and all if this
   * is NULL: every column counts the same. Must outlive the plan. */
  const nabla_checkpoint *importance;
  nabla_layout_choice layout;
  nabla_nonfinite_policy nonfinite;
  nabla_isa isa;
  const char *const *only; /* patterns; a tensor must match one, if any    */
  size_t only_count;
  const char *const *skip; /* patterns; a tensor that matches one is kept  */
  size_t skip_count;
  const nabla_quantize_rule *rules; /* the first match overrides the default
                              choice; `skip` and `only` override rules     */
  size_t rule_count;
  /* 1: the output is one file, or shards with an index and no other files, so
   * that the folder's config.json is not read and does not affect the plan. */
  int weights_alone;
} nabla_quantize_options;

typedef struct nabla_plan nabla_plan;

/* What will happen to one logical tensor. */
typedef struct nabla_plan_row {
  size_t tensor;       /* index in the checkpoint                           */
  int quantized;       /* 0: copied as it is                                */
  nabla_format format; /* when quantized                                    */
  int search;          /* scales have the least squared error               */
  int has_importance;  /* errors are weighted by column                     */
  uint64_t bytes_in;
  uint64_t bytes_out;
  double bits_per_weight; /* of the output; 0 for empty tensors             */
  size_t rule;      /* index of the rule that matched, or SIZE_MAX       */
  char reason[160]; /* one clause: "default", "rule 1 'ffn'", "embedding" */
} nabla_plan_row;

typedef struct nabla_plan_totals {
  size_t tensors, quantized;
  size_t searched, weighted; /* with search, and of these with importance   */
  uint64_t bytes_in, bytes_out; /* of tensor data                           */
  nabla_layout layout;          /* of the output; DENSE if nothing is packed */
  char layout_reason[160];      /* why the layout is what it is             */
} nabla_plan_totals;

/* Makes the plan for all tensors. Reads no tensor data, except with
 * NABLA_NONFINITE_KEEP. The checkpoint must outlive the plan; the options are
 * copied, but not what `importance` points to.
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
  uint32_t files;         /* weight files written                           */
  uint32_t copied;        /* other files copied                        */
  uint64_t copied_bytes;  /* bytes of these other files                */
  double seconds;         /* of the whole call                         */
  double sync_seconds;    /* part of `seconds` spent in syncing        */
  uint32_t missing_parts; /* with `parts`: that are not there yet; 0: the
                             output is complete                             */
} nabla_write_summary;

/* Where and how to write. `path` selects the form of the output:
 *   *.safetensors  one file; shards are merged
 *   *.json         an index with its shards; the path's parent is a new folder
 *   anything else  a new folder; shards keep their names, and an index is
 *                  written when there are several */
typedef struct nabla_write_options {
  size_t struct_size; /* sizeof(nabla_write_options) */
  const char *path;
  int force; /* replace an existing output, but never an input */
  /* Files to copy beside the weights (nabla/folder.h), listed for the same plan
   * or for decoding; NULL: none. Ignored when the output is one file. */
  const struct nabla_folder *folder;
  /* Of nabla_plan_write to one file, which `parts` processes make: this one
   * makes `part`, from 1 to `parts`. It publishes "PATH.part-I-of-N", unless an
   * earlier run of the same plan has left it, and where all parts are there
   * they are joined to the file, byte for byte that of one process, and
   * removed. Parts need not run at the same time, nor in order; one that fails
   * is made again. Where the output is there, and parts of the same plan that
   * it has all of, their joiner was killed: they are removed, and that is a
   * success. 0, or 1 of 1: the whole output. */
  uint32_t part, parts;
} nabla_write_options;

#define NABLA_MAX_OUTPUT_PARTS 1024u

/* Writes the checkpoint as planned. Tensors are streamed: memory does not
 * depend on the bytes of the model or of its largest tensor. The output's bytes
 * do not depend on the number of threads or on the instruction set.
 * @return NABLA_OK, NABLA_EXISTS, NABLA_NOT_FINITE, NABLA_UNSUPPORTED,
 *         NABLA_INVALID_ARGUMENT (output is an input), NABLA_CORRUPT (the
 *         input changed during the call, or a packed tensor in it has a scale
 *         or code that no writer produces), NABLA_IO, NABLA_NO_MEMORY,
 *         NABLA_CANCELLED. After a failure `path` is as it was before, or it
 *         holds the complete output: then the message says "is in place".
 *         With `parts` also NABLA_EXISTS: a part is of another source, of other
 *         options, or another part (with `force` it is replaced by its
 *         process), and NABLA_CORRUPT: a part is damaged, or the parts have not
 *         each tensor once */
NABLA_API NABLA_MUST_USE nabla_status
nabla_plan_write(const nabla_plan *plan, const nabla_write_options *where,
                 const nabla_environment *environment, nabla_write_summary *out,
                 nabla_diag *diag);

/* Options of nabla_dequantize. */
typedef struct nabla_dequantize_options {
  size_t struct_size; /* sizeof(nabla_dequantize_options) */
  int has_dtype;      /* 0: the dtype that each tensor had before packing. The
                         LLM.int8 layout does not store it: then the dtype in
                         the folder's config.json, else F32               */
  nabla_dtype dtype;  /* F32, F16 or BF16, for packed tensors; dense ones are
                         copied                                           */
  nabla_isa isa;
} nabla_dequantize_options;

/* Writes the checkpoint with every packed tensor decoded.
 * @return as nabla_plan_write; also NABLA_UNSUPPORTED if a value is too large
 *         for the dtype: the message names tensor and index */
NABLA_API NABLA_MUST_USE nabla_status nabla_dequantize(
    const nabla_checkpoint *checkpoint, const nabla_dequantize_options *options,
    const nabla_write_options *where, const nabla_environment *environment,
    nabla_write_summary *out, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
