/* Small checkpoints for tests: written by the library's own writer, filled
 * with made-up weights. What goes wrong here is no finding: it ends the test
 * program. */
#ifndef NABLA_TESTS_MODEL_H
#define NABLA_TESTS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/checkpoint.h"
#include "nabla/quantize.h"

/* One tensor. `data` NULL: a float tensor gets made-up weights, any other
 * dtype the bytes i % 251. */
typedef struct model_tensor {
  const char *name;
  nabla_dtype dtype;
  uint32_t rank;
  uint64_t shape[4];
  const void *data;
} model_tensor;

/* Writes a safetensors file; replaces what is there. */
void model_write(const char *path, const model_tensor *tensors, size_t count);

/* `count` weights: normal(0, 1) times 0.05, the same for the same seed. */
void model_fill(float *out, size_t count, uint64_t seed);

/* Quantizes the checkpoint `from` to the file `to`; replaces what is there. */
void model_quantize(const char *from, const char *to,
                    const nabla_quantize_options *options);

/* Opens a checkpoint that must be good. */
nabla_checkpoint *model_open(const char *path);

/* The logical tensor of that name, which must exist. */
nabla_tensor model_tensor_of(const nabla_checkpoint *checkpoint,
                             const char *name);

/* Bytes of the file tensor of that name, which must exist in some shard; free
 * with free(). `out_size` may be NULL. */
void *model_bytes(const nabla_checkpoint *checkpoint, const char *name,
                  size_t *out_size);

/* The whole file; free with free(). */
uint8_t *model_slurp(const char *path, size_t *out_size);

/* 1 when the two files have the same bytes. */
int model_same_files(const char *a, const char *b);

int model_exists(const char *path);

/* Names in a folder, hidden ones too. */
size_t model_count_names(const char *folder);

/* Removes a folder with all that is in it. */
void model_remove_tree(const char *path);

#endif
