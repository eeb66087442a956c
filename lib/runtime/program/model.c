/* A model: a checkpoint whose files are mapped, and copies of the components
 * that cannot be used where they lie. */
#include "nabla/model.h"

#include <pthread.h>
#include <stdalign.h>

#include "lib/base/checked.h"
#include "lib/base/edit_distance.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/program/allocations.h"
#include "lib/runtime/program/guarded.h"
#include "lib/runtime/program/mapping.h"

/* One file. `copies` has a place for each of its tensors, and is NULL until
 * one had to be copied. */
typedef struct shard {
  nabla_mapping mapping;
  void **copies;
} shard;

struct nabla_model {
  const nabla_allocator *allocator;
  nabla_checkpoint *checkpoint;
  shard *shards;
  uint32_t shard_count;
  pthread_mutex_t lock;     /* guards what follows, and every `copies` */
  nabla_allocations blocks; /* the copies                              */
};

/* What components without bytes point to. */
static const alignas(NABLA_SERVICES_ALIGNMENT) uint8_t nothing[1];

/* ---- opening ------------------------------------------------------------ */

static nabla_status map_shards(nabla_model *model, int is_guarded,
                               nabla_diag *diag) {
  for (uint32_t i = 0; i < model->shard_count; i++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(model->checkpoint, i);
    const nabla_os_info info = nabla_tensor_file_info(file);
    const char *path = nabla_tensor_file_borrow_path(file);
    nabla_mapping *mapping = &model->shards[i].mapping;
    NABLA_TRY(nabla_mapping_open(path, &info, mapping, diag));
    if (is_guarded && mapping->data)
      NABLA_TRY(nabla_guarded_add(model, mapping, path, diag));
  }
  return NABLA_OK;
}

static nabla_status open_into(nabla_model *model, const char *path,
                              nabla_model_mode mode,
                              const nabla_environment *environment,
                              nabla_diag *diag) {
  if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "weights are used as they lie in the file, which is "
                      "little-endian: this machine is not");
  NABLA_TRY(nabla_checkpoint_open(path, environment, &model->checkpoint, diag));
  void *shards = NULL;
  const uint32_t count = nabla_checkpoint_shard_count(model->checkpoint);
  NABLA_TRY(nabla_alloc(model->allocator, count, sizeof(shard), &shards, diag));
  model->shards = shards;
  model->shard_count = count;
  /* Files of somebody else's `os` are nothing that we can map: they are read.
   */
  const nabla_os *os = environment ? environment->os : NULL;
  if ((os && os != nabla_os_default()) || mode == NABLA_MODEL_COPY)
    return NABLA_OK;
  return map_shards(model, mode == NABLA_MODEL_GUARDED, diag);
}

nabla_status nabla_model_open(const char *path,
                              const nabla_environment *environment,
                              nabla_model **out, nabla_diag *diag) {
  return nabla_model_open_with(path, NULL, environment, out, diag);
}

nabla_status nabla_model_open_with(const char *path,
                                   const nabla_model_options *options,
                                   const nabla_environment *environment,
                                   nabla_model **out, nabla_diag *diag) {
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  if (options) NABLA_REQUIRE_SIZE(options, "model options", diag);
  const nabla_model_mode mode = options ? options->mode : NABLA_MODEL_MAP;
  if ((uint32_t)mode >= NABLA_MODEL_MODES)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%d is no mode of a model: there are %d", (int)mode,
                      (int)NABLA_MODEL_MODES);
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  void *block = NULL;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_model), &block, diag));
  nabla_model *model = block;
  model->allocator = allocator;
  pthread_mutex_init(&model->lock, NULL);
  const nabla_status status = open_into(model, path, mode, environment, diag);
  if (status)
    nabla_model_close(model);
  else
    *out = model;
  return status;
}

static size_t entries_of(const nabla_model *model, uint32_t shard_number) {
  return nabla_tensor_file_count(
      nabla_checkpoint_borrow_shard(model->checkpoint, shard_number));
}

void nabla_model_close(nabla_model *model) {
  if (!model) return;
  nabla_allocations_clear(&model->blocks, model->allocator);
  nabla_guarded_remove(model);
  for (uint32_t i = 0; i < model->shard_count; i++) {
    nabla_mapping_close(&model->shards[i].mapping);
    if (model->shards[i].copies)
      nabla_free(model->allocator, model->shards[i].copies,
                 entries_of(model, i), sizeof(void *));
  }
  nabla_free(model->allocator, model->shards, model->shard_count,
             sizeof(shard));
  nabla_checkpoint_close(model->checkpoint);
  pthread_mutex_destroy(&model->lock);
  nabla_free(model->allocator, model, 1, sizeof *model);
}

const nabla_checkpoint *nabla_model_borrow_checkpoint(
    const nabla_model *model) {
  return model->checkpoint;
}

nabla_status nabla_model_check_unchanged(const nabla_model *model,
                                         nabla_diag *diag) {
  NABLA_REQUIRE(model, diag);
  NABLA_TRY(nabla_guarded_check_owner(model, diag));
  for (uint32_t i = 0; i < model->shard_count; i++)
    NABLA_TRY(nabla_tensor_file_check_unchanged(
        nabla_checkpoint_borrow_shard(model->checkpoint, i), diag));
  return NABLA_OK;
}

/* ---- finding ------------------------------------------------------------ */

static uint64_t alignment_of(nabla_dtype dtype) {
  const uint64_t bytes = nabla_dtype_bits(dtype) / 8;
  return bytes ? bytes : 1; /* a power of two: of 4 to 64 bits */
}

/* Returns the copy of a file tensor, made on first use. Under the lock. */
static nabla_status copy_of(nabla_model *model, nabla_part part,
                            const nabla_entry *entry, const void **out,
                            nabla_diag *diag) {
  shard *home = &model->shards[part.shard];
  if (!home->copies) {
    void *copies = NULL;
    NABLA_TRY(nabla_alloc(model->allocator, entries_of(model, part.shard),
                          sizeof(void *), &copies, diag));
    home->copies = copies;
  }
  void *copy = home->copies[part.entry];
  if (!copy) {
    size_t bytes;
    if (nabla_cast_size(entry->bytes, &bytes))
      copy = nabla_allocations_allocate(&model->blocks, model->allocator,
                                        entry->bytes);
    if (!copy)
      return nabla_fail(diag, NABLA_NO_MEMORY,
                        "cannot allocate %llu bytes for an aligned copy",
                        (unsigned long long)entry->bytes);
    const nabla_status status = nabla_tensor_file_read(
        nabla_checkpoint_borrow_shard(model->checkpoint, part.shard),
        part.entry, 0, copy, bytes, diag);
    if (status) {
      nabla_allocations_free(&model->blocks, model->allocator, copy);
      return status;
    }
    home->copies[part.entry] = copy;
  }
  *out = copy;
  return NABLA_OK;
}

static void add(nabla_weight *out, const char *name, nabla_dtype dtype,
                const void *data, uint64_t bytes) {
  nabla_weight_desc *desc = &out->desc;
  desc->components[desc->component_count++] =
      (nabla_weight_component){name, dtype, data, bytes};
}

/* Adds the component in `part` to `out`: in place if it can be. */
static nabla_status add_component(nabla_model *model, nabla_part part,
                                  const char *name, nabla_dtype dtype,
                                  nabla_weight *out, nabla_diag *diag) {
  const nabla_entry entry = nabla_tensor_file_entry(
      nabla_checkpoint_borrow_shard(model->checkpoint, part.shard), part.entry);
  const nabla_mapping *mapping = &model->shards[part.shard].mapping;
  const void *data = nothing;
  if (entry.bytes && mapping->data && entry.offset != NABLA_OFFSET_NONE &&
      entry.offset % alignment_of(dtype) == 0) {
    data = mapping->data + entry.offset; /* the mapping starts at a page */
  } else if (entry.bytes) {
    pthread_mutex_lock(&model->lock);
    const nabla_status status = copy_of(model, part, &entry, &data, diag);
    pthread_mutex_unlock(&model->lock);
    if (status) return status;
    out->copied_bytes += entry.bytes;
  }
  add(out, name, dtype, data, entry.bytes);
  return NABLA_OK;
}

/* Scales as they are, or in 8 bits with what these need: the offset and the map
 * were read when the checkpoint was opened, which keeps them. */
static nabla_status add_scales(nabla_model *model, nabla_weight *out,
                               nabla_diag *diag) {
  const nabla_tensor *tensor = &out->tensor;
  const nabla_scale_type type = tensor->format.scale;
  if (type != NABLA_SCALE_DYNAMIC8)
    return add_component(model, tensor->scales, "scales",
                         nabla_scale_info_of(type)->dtype, out, diag);
  const nabla_dynamic8 *how = &tensor->nested->how;
  NABLA_TRY(add_component(model, tensor->scales, "scales.codes", NABLA_DTYPE_U8,
                          out, diag));
  NABLA_TRY(add_component(model, tensor->nested->absmax, "scales.scales",
                          NABLA_DTYPE_F32, out, diag));
  add(out, "scales.offset", NABLA_DTYPE_F32, &how->offset, sizeof how->offset);
  add(out, "scales.map", NABLA_DTYPE_F32, how->map, sizeof how->map);
  return NABLA_OK;
}

static nabla_status add_components(nabla_model *model, nabla_weight *out,
                                   nabla_diag *diag) {
  const nabla_tensor *tensor = &out->tensor;
  if (!tensor->format.encoding)
    return add_component(model, tensor->data, "values", tensor->dtype, out,
                         diag);
  /* bitsandbytes may store codes as F16 or others: they are bytes all the same
   */
  const nabla_dtype codes =
      tensor->format.encoding->bits == 8 ? NABLA_DTYPE_I8 : NABLA_DTYPE_U8;
  NABLA_TRY(add_component(model, tensor->data, "codes", codes, out, diag));
  NABLA_TRY(add_scales(model, out, diag));
  if (!tensor->format.zero_point) return NABLA_OK;
  return add_component(model, tensor->zero_points, "zero_points",
                       NABLA_DTYPE_U8, out, diag);
}

/* The description without components. A file's tensor has at most
 * NABLA_WEIGHT_MAX_RANK dimensions. */
static nabla_weight_desc describe(const nabla_tensor *tensor) {
  nabla_weight_desc desc = {
      .name = tensor->name, .rank = tensor->rank, .dtype = tensor->dtype};
  for (uint32_t i = 0; i < tensor->rank; i++) desc.shape[i] = tensor->shape[i];
  if (!tensor->format.encoding) return desc;
  desc.layout = (nabla_storage){
      .kind = NABLA_STORAGE_PLANES,
      .format = tensor->format,
      .nested_block = tensor->nested ? tensor->nested->how.block : 0};
  return desc;
}

_Static_assert(NABLA_WEIGHT_MAX_RANK >= NABLA_TENSOR_FILE_MAX_RANK,
               "every tensor of a file can be described");

static nabla_status fail_not_found(const nabla_model *model, const char *name,
                                   size_t length, nabla_diag *diag) {
  nabla_nearest nearest = nabla_nearest_begin(name, length);
  const size_t count = nabla_checkpoint_count(model->checkpoint);
  for (size_t i = 0; i < count && nearest.work; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(model->checkpoint, i);
    nabla_nearest_offer(&nearest, tensor.name, tensor.name_length);
  }
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "there is no such tensor");
  nabla_diag_set_file(diag, nabla_checkpoint_borrow_path(model->checkpoint));
  nabla_diag_set_tensor(diag, name, length);
  nabla_nearest_say(&nearest, diag, "nabla-quant inspect lists its tensors");
  return status;
}

nabla_status nabla_model_find(nabla_model *model, const char *name,
                              nabla_weight *out, nabla_diag *diag) {
  NABLA_REQUIRE(model, diag);
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(out, diag);
  return nabla_model_find_n(model, name, strlen(name), out, diag);
}

nabla_status nabla_model_find_n(nabla_model *model, const char *name,
                                size_t length, nabla_weight *out,
                                nabla_diag *diag) {
  NABLA_REQUIRE(model, diag);
  if (length) NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_TRY(nabla_guarded_check_owner(model, diag));
  const size_t index = nabla_checkpoint_find(model->checkpoint, name, length);
  if (index == SIZE_MAX) return fail_not_found(model, name, length, diag);
  nabla_weight weight = {.tensor =
                             nabla_checkpoint_tensor(model->checkpoint, index)};
  weight.desc = describe(&weight.tensor);
  nabla_status status =
      weight.tensor.unsupported
          ? nabla_fail(diag, NABLA_UNSUPPORTED, "%s", weight.tensor.unsupported)
          : add_components(model, &weight, diag);
  if (status) {
    nabla_diag_set_file(
        diag, nabla_tensor_file_borrow_path(nabla_checkpoint_borrow_shard(
                  model->checkpoint, weight.tensor.data.shard)));
    nabla_diag_set_tensor(diag, name, length);
    return status;
  }
  *out = weight;
  return NABLA_OK;
}
