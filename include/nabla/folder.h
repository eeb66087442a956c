/* A model as a Hugging Face folder: the files beside its weights, which go
 * along when it is quantized or decoded, and what its config.json will say. */
#ifndef NABLA_FOLDER_H
#define NABLA_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/checkpoint.h"
#include "nabla/quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits, each refused with NABLA_TOO_LARGE. */
#define NABLA_FOLDER_MAX_FILES  4096u /* beside the weights, in all folders  */
#define NABLA_FOLDER_MAX_DEPTH  8     /* folders in folders                  */
#define NABLA_FOLDER_MAX_PATH   1024u /* bytes of a path in the folder       */
#define NABLA_FOLDER_MAX_CONFIG (1u << 20) /* bytes of config.json          */

typedef struct nabla_folder nabla_folder;

typedef enum nabla_folder_action {
  NABLA_FOLDER_COPY,  /* as it is                                          */
  NABLA_FOLDER_EDIT,  /* config.json, with another quantization_config     */
  NABLA_FOLDER_LEAVE, /* not copied; `reason` says why                     */
  NABLA_FOLDER_READ,  /* weights or index behind a link: written anew      */
} nabla_folder_action;

/* One file, or a folder that is left out as a whole. Texts live as long as the
 * nabla_folder. */
typedef struct nabla_folder_file {
  const char *path; /* inside the folder */
  uint64_t bytes;   /* 0 for a folder    */
  int is_folder;
  int is_hidden; /* left out because its name begins with a dot */
  nabla_folder_action action;
  const char *reason; /* NULL unless it is left out */
  const char *target; /* of a link that leads to a file: absolute, free of
                         links; else NULL */
} nabla_folder_file;

typedef struct nabla_folder_totals {
  size_t copied; /* with an edited config.json */
  size_t left_out;
  uint64_t bytes; /* of what is copied, before editing */
} nabla_folder_totals;

typedef enum nabla_config_action {
  NABLA_CONFIG_NONE,    /* there is no config.json                           */
  NABLA_CONFIG_KEEP,    /* it stays as it is                                 */
  NABLA_CONFIG_INSERT,  /* it gets a quantization_config                     */
  NABLA_CONFIG_REPLACE, /* it gets another one                               */
  NABLA_CONFIG_REMOVE,  /* it loses the one that no longer holds             */
  NABLA_CONFIG_REFUSE,  /* the model is quantized otherwise: nothing is
                           written                                           */
} nabla_config_action;

/* What becomes of the quantization_config in config.json. */
typedef struct nabla_config_change {
  nabla_config_action action;
  char reason[200]; /* one clause                                           */
  int is_loadable;  /* transformers can load the result, or there is nothing
                       packed that it would have to know of                 */
  int is_misread;   /* it loads the result without an error and takes codes
                       of LLM.int8 for weights: nothing says otherwise      */
  /* With INSERT and REPLACE: */
  const char *quant_type; /* "nf4", "fp4" or "int8"; else NULL              */
  const char *compute_dtype;
  int double_quant;
  int has_skip; /* 0: llm_int8_skip_modules is null                         */
  size_t skip_count;
} nabla_config_change;

/* Lists the other files of the folder that `checkpoint` was opened from; none
 * when that was a file or an index. Weights in another form, hidden files and
 * what is no file are left out. A link is followed where it leads to a file
 * below the folder or, for a folder in `snapshots` of the Hugging Face cache,
 * below the `blobs` beside it; others are left out, but for config.json, whose
 * content is parsed. When the copy is written, this is asked once more of what
 * was opened.
 * @param plan    of this checkpoint; NULL: it will be decoded
 * @param output  where the copy will be written, which is left out when it
 *                lies inside; may be NULL
 * @return NABLA_OK, NABLA_CORRUPT (config.json, with the offset),
 *         NABLA_TOO_LARGE (a limit above), NABLA_IO, NABLA_NO_MEMORY
 * The checkpoint must outlive it. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_folder_create(const nabla_checkpoint *checkpoint, const nabla_plan *plan,
                    const char *output, const nabla_environment *environment,
                    nabla_folder **out, nabla_diag *diag);
NABLA_API void nabla_folder_destroy(nabla_folder *folder);

/* Files in the order of their paths. */
NABLA_API size_t nabla_folder_count(const nabla_folder *folder);
NABLA_API nabla_folder_file nabla_folder_get(const nabla_folder *folder,
                                             size_t index);
NABLA_API nabla_folder_totals
nabla_folder_get_totals(const nabla_folder *folder);

NABLA_API nabla_config_change
nabla_folder_get_config(const nabla_folder *folder);

/* Module `index` of llm_int8_skip_modules, its length in *out_length. */
NABLA_API const char *nabla_folder_skip(const nabla_folder *folder,
                                        size_t index, size_t *out_length);

#ifdef __cplusplus
}
#endif

#endif
