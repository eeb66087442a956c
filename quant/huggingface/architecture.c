/* The table of architectures; see architecture.h. */
#include "quant/huggingface/architecture.h"

#include <string.h>

static const nabla_architecture rows[] = {
#define ARCHITECTURE(name, replaced, kept, writer, keys) \
  {#name, replaced, kept, writer, keys},
#include "quant/huggingface/architectures.def"
#undef ARCHITECTURE
};

const nabla_architecture *nabla_architecture_find(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

size_t nabla_architecture_word(const char **at, const char **out_word) {
  *out_word = *at + strspn(*at, " ");
  const size_t size = strcspn(*out_word, " ");
  *at = *out_word + size;
  return size;
}

static int has_word(const char *words, const char *text, size_t length) {
  const char *word;
  size_t size;
  while ((size = nabla_architecture_word(&words, &word)))
    if (size == length && !memcmp(word, text, length)) return 1;
  return 0;
}

/* Whether "experts.NUMBER." is in the name: transformers 5 loads all experts of
 * a layer as one tensor, which bitsandbytes does not pack. */
static int is_expert(const char *name, size_t length) {
  static const char part[] = "experts.";
  const char *end = name + length, *at = name;
  while ((at = memmem(at, (size_t)(end - at), part, sizeof part - 1))) {
    const int starts = at == name || at[-1] == '.';
    at += sizeof part - 1;
    if (starts && at < end && *at >= '0' && *at <= '9') return 1;
  }
  return 0;
}

int nabla_architecture_replaces(const nabla_architecture *row,
                                const char *module, size_t length) {
  const char *dot = memrchr(module, '.', length);
  const char *last = dot ? dot + 1 : module;
  return has_word(row->replaced, last, length - (size_t)(last - module)) &&
         !is_expert(module, length);
}

int nabla_architecture_keeps(const nabla_architecture *row, const char *module,
                             size_t length) {
  return has_word(row->kept, module, length);
}

int nabla_architecture_takes(const nabla_architecture *row, const char *key,
                             size_t length) {
  return has_word(row->keys, key, length);
}
