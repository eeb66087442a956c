/* See bound_key.h. */
#include "lib/runtime/program/bound_key.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/runtime/program/type_to_text.h"

#define SAMPLE 64 /* bytes of a component: other weights of the same types */

uint64_t nabla_key_mix(uint64_t key, const void *data, size_t bytes) {
  return XXH3_64bits_withSeed(bytes ? data : "", bytes, key + bytes);
}

static uint64_t mix_text(uint64_t key, const char *text) {
  return nabla_key_mix(key, text, strlen(text));
}

void nabla_bound_key_add(nabla_executable *executable, const char *argument,
                         const nabla_weight_desc *weight) {
  const nabla_text_80 type = nabla_describe_weight(weight);
  uint64_t key = mix_text(executable->weights_key, argument);
  key = mix_text(key, type.text);
  for (uint32_t i = 0; i < weight->component_count; i++) {
    const uint64_t bytes = weight->components[i].bytes;
    key = nabla_key_mix(key, &bytes, sizeof bytes);
    key = nabla_key_mix(key, weight->components[i].data,
                        bytes < SAMPLE ? (size_t)bytes : SAMPLE);
  }
  executable->weights_key = key;
}

static uint64_t mix_file(uint64_t key, const nabla_tensor_file *file) {
  const uint64_t size = nabla_tensor_file_size(file);
  key = nabla_key_mix(key, &size, sizeof size);
  for (size_t i = 0; i < nabla_tensor_file_metadata_count(file); i++) {
    const char *name, *value;
    nabla_tensor_file_metadata(file, i, &name, &value);
    key = mix_text(mix_text(key, name), value);
  }
  for (size_t i = 0; i < nabla_tensor_file_count(file); i++) {
    const nabla_entry entry = nabla_tensor_file_entry(file, i);
    const uint64_t facts[] = {entry.dtype, entry.rank, entry.offset,
                              entry.bytes};
    key = nabla_key_mix(key, entry.name, entry.name_length);
    key = nabla_key_mix(key, facts, sizeof facts);
    key = nabla_key_mix(key, entry.shape, entry.rank * sizeof *entry.shape);
  }
  return key;
}

void nabla_bound_key_add_files(nabla_executable *executable,
                               const nabla_checkpoint *checkpoint) {
  const uint32_t count = nabla_checkpoint_shard_count(checkpoint);
  for (uint32_t i = 0; i < count; i++)
    executable->weights_key = mix_file(
        executable->weights_key, nabla_checkpoint_borrow_shard(checkpoint, i));
}
