/* Inside quant/: Hugging Face's config.json, whose quantization_config is read,
 * put in, exchanged or taken out. Every other byte of the file stays as it is:
 * the text is cut at the offsets that the parser gives, never printed again. */
#ifndef NABLA_QUANT_HUGGINGFACE_HF_CONFIG_H
#define NABLA_QUANT_HUGGINGFACE_HF_CONFIG_H

#include "lib/base/file/file.h"
#include "lib/base/memory.h"
#include "quant/huggingface/architecture.h"

#define NABLA_HF_CONFIG_NAME   "config.json"
#define NABLA_HF_CONFIG_MAX    (1u << 20) /* bytes of config.json */
#define NABLA_HF_CONFIG_MEMBER "quantization_config"

/* Texts of config.json that are kept are cut to this. */
#define NABLA_HF_TEXT  32
#define NABLA_HF_CLASS 64

/* A module by its name in the checkpoint, without ".weight". */
typedef struct nabla_module {
  const char *name;
  size_t length;
} nabla_module;

/* What a quantization_config says, as far as it matters here. */
typedef struct nabla_hf_quantization {
  char method[NABLA_HF_TEXT];        /* quant_method, or ""           */
  char type[NABLA_HF_TEXT];          /* bnb_4bit_quant_type, or ""    */
  char compute_dtype[NABLA_HF_TEXT]; /* bnb_4bit_compute_dtype, or "" */
  int load_in_4bit, load_in_8bit;
} nabla_hf_quantization;

/* Where the member stands, and how the file is laid out. Offsets count from
 * the first byte of the text. */
typedef struct nabla_hf_config {
  nabla_hf_quantization quantization;
  char class_name[NABLA_HF_CLASS]; /* the first of "architectures", or "" */
  const nabla_architecture *architecture; /* its row, or NULL             */
  int is_untied;             /* "tie_word_embeddings" is there and false */
  size_t size;               /* of the text                              */
  char dtype[NABLA_HF_TEXT]; /* "torch_dtype" or "dtype", or ""             */
  int has_member;
  int is_null;            /* the member is null                       */
  size_t key, begin, end; /* of the member: its key, its value        */
  size_t before;          /* end of the value before it, or behind '{' */
  size_t after;           /* key of the member after it; 0: none      */
  size_t open;            /* behind the '{' of the whole              */
  size_t first;           /* of the first key; 0: there is none       */
  size_t last;            /* end of the last value                    */
  size_t members;
  int spaced; /* a space follows the first ':', or there is none */
} nabla_hf_config;

/* Reads the text of a config.json: a JSON object, as Python's json writes it
 * (NaN and Infinity are numbers; a byte order mark is passed over).
 * @return NABLA_CORRUPT     with the offset; also for a member that stands
 *                           there twice
 *         NABLA_TOO_LARGE   more than NABLA_HF_CONFIG_MAX bytes, or nested
 *                           deeper than NABLA_JSON_MAX_DEPTH
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status
nabla_hf_config_read(const nabla_allocator *allocator, const void *text,
                     size_t size, nabla_hf_config *out, nabla_diag *diag);

/* Reads a whole file into `text`, an initialised buffer of that limit, and
 * then as above; errors name the file. */
NABLA_MUST_USE nabla_status nabla_hf_config_load(const nabla_os *os,
                                                 const char *path,
                                                 nabla_buffer *text,
                                                 nabla_hf_config *out,
                                                 nabla_diag *diag);

/* The value to put in; texts are borrowed. */
typedef struct nabla_hf_value {
  const char *type; /* "nf4", "fp4" or "int8" */
  const char *compute_dtype;
  int double_quant;
  int has_skip; /* 0: llm_int8_skip_modules is null */
  const char *const *skip;
  const size_t *skip_length;
  size_t skip_count;
} nabla_hf_value;

/* Appends the text with the member set to `value`, or without it when `value`
 * is NULL, to `out`, in the indentation and line ends of the text. */
NABLA_MUST_USE nabla_status nabla_hf_config_splice(
    const void *text, size_t size, const nabla_hf_config *from,
    const nabla_hf_value *value, nabla_buffer *out, nabla_diag *diag);

#endif
