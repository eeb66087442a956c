/* Inside lib/models: the part of config.json that a decoder is written from. */
#ifndef NABLA_MODELS_DECODER_CONFIG_H
#define NABLA_MODELS_DECODER_CONFIG_H

#include "lib/base/memory.h"
#include "nabla/environment.h"
#include "nabla/status.h"

#define NABLA_DECODER_MAX_CONFIG (1u << 20) /* bytes of config.json */

/* A member for each key that is a size, a real number or a flag. */
typedef struct nabla_decoder_config {
#define DECODER_SIZE(key, fallback) uint64_t key;
#define DECODER_REAL(key, fallback) double key;
#define DECODER_FLAG(key, fallback) int key;
#define DECODER_FIXED(key, value, meaning)
#define DECODER_IGNORED(key)
#include "lib/models/decoder_keys.def"
#undef DECODER_SIZE
#undef DECODER_REAL
#undef DECODER_FLAG
#undef DECODER_FIXED
#undef DECODER_IGNORED
} nabla_decoder_config;

/* Reads and checks the text of a config.json.
 * @return as nabla_decoder_write */
NABLA_MUST_USE nabla_status nabla_decoder_config_parse(
    const nabla_allocator *allocator, const void *text, size_t size,
    nabla_decoder_config *out, nabla_diag *diag);

/* Reads the file at `path` and parses it; errors name the file. */
NABLA_MUST_USE nabla_status nabla_decoder_config_load(
    const char *path, const nabla_environment *environment,
    nabla_decoder_config *out, nabla_diag *diag);

#endif
