/* Classes of models that config.json names (architectures.def): which layers
 * transformers replaces by those of bitsandbytes, and whose program can be
 * written (lib/models). */
#ifndef NABLA_QUANT_HUGGINGFACE_ARCHITECTURE_H
#define NABLA_QUANT_HUGGINGFACE_ARCHITECTURE_H

#include <stddef.h>

/* A row of architectures.def: lists of words. */
typedef struct nabla_architecture {
  const char *name;     /* the class, "LlamaForCausalLM"               */
  const char *replaced; /* last parts of names of modules              */
  const char *kept;     /* names of modules that are listed when dense */
  int writer;           /* its program can be written                   */
  const char *keys;     /* of config.json, that the program depends on  */
} nabla_architecture;

/* The row of a class; NULL: none. */
const nabla_architecture *nabla_architecture_find(const char *name);

/* Whether the module of that name becomes a layer of bitsandbytes. */
int nabla_architecture_replaces(const nabla_architecture *row,
                                const char *module, size_t length);

/* Whether the module is named in the column `kept`. */
int nabla_architecture_keeps(const nabla_architecture *row, const char *module,
                             size_t length);

/* Whether the program depends on that key of config.json. */
int nabla_architecture_takes(const nabla_architecture *row, const char *key,
                             size_t length);

/* The next word of a column from *at on, which moves behind it; 0: none. */
size_t nabla_architecture_word(const char **at, const char **out_word);

#endif
