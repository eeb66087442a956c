/* See the header. */
#include "tests/support/model.h"

#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nabla/safetensors.h"

static void require(int holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(EXIT_FAILURE);
}

static void succeed(nabla_status status, const nabla_diag *diag) {
  if (!status) return;
  char line[1024];
  (void)nabla_diag_format(diag, line, sizeof line);
  fprintf(stderr, "%s\n", line);
  exit(EXIT_FAILURE);
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), used as a
 * hash of a counter. */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* In (0, 1]. */
static double uniform(uint64_t x) {
  return ((double)(mix(x) >> 11) + 1) / 0x1p53;
}

void model_fill(float *out, size_t count, uint64_t seed) {
  const double turn = 6.283185307179586;
  for (size_t i = 0; i < count; i++) {
    const uint64_t key = mix(seed) + 2 * i;
    const double radius = sqrt(-2 * log(uniform(key)));
    out[i] = (float)(0.05 * radius * cos(turn * uniform(key + 1)));
  }
}

/* The bytes of a tensor without data. */
static void *make_data(const model_tensor *tensor, size_t count, size_t bytes,
                       uint64_t seed) {
  void *data = malloc(bytes ? bytes : 1);
  require(data != NULL, "malloc");
  uint8_t *raw = data;
  for (size_t i = 0; i < bytes; i++) raw[i] = (uint8_t)(i % 251);
  if (!nabla_dtype_is_float(tensor->dtype)) return data;
  float *values = malloc((count ? count : 1) * sizeof *values);
  require(values != NULL, "malloc");
  model_fill(values, count, seed);
  (void)nabla_from_f32(tensor->dtype, values, count, data);
  free(values);
  return data;
}

static size_t count_elements(const model_tensor *tensor) {
  size_t count = 1;
  for (uint32_t i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
  return count;
}

static void put(nabla_safetensors_writer *writer, size_t id,
                const model_tensor *tensor, uint64_t seed, nabla_diag *diag) {
  const size_t count = count_elements(tensor);
  const size_t bytes = count * nabla_dtype_bits(tensor->dtype) / 8;
  void *made = tensor->data ? NULL : make_data(tensor, count, bytes, seed);
  const void *data = tensor->data ? tensor->data : made;
  if (bytes)
    succeed(nabla_safetensors_writer_write(writer, id, 0, data, bytes, diag),
            diag);
  free(made);
}

void model_write(const char *path, const model_tensor *tensors, size_t count) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_safetensors_writer *writer = NULL;
  size_t id;
  succeed(nabla_safetensors_writer_create(NULL, NULL, &writer, &diag), &diag);
  for (size_t i = 0; i < count; i++)
    succeed(nabla_safetensors_writer_add(writer, tensors[i].name,
                                         strlen(tensors[i].name),
                                         tensors[i].dtype, tensors[i].shape,
                                         tensors[i].rank, &id, &diag),
            &diag);
  succeed(nabla_safetensors_writer_begin(writer, path, 1, &diag), &diag);
  for (size_t i = 0; i < count; i++) put(writer, i, &tensors[i], i + 1, &diag);
  succeed(nabla_safetensors_writer_commit(writer, &diag), &diag);
  nabla_safetensors_writer_destroy(writer);
}

nabla_checkpoint *model_open(const char *path) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_checkpoint *checkpoint = NULL;
  succeed(nabla_checkpoint_open(path, NULL, &checkpoint, &diag), &diag);
  return checkpoint;
}

void model_quantize(const char *from, const char *to,
                    const nabla_quantize_options *options) {
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = to, .force = 1};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_checkpoint *checkpoint = model_open(from);
  nabla_plan *plan = NULL;
  nabla_write_summary summary;
  succeed(nabla_plan_create(checkpoint, options, NULL, &plan, &diag), &diag);
  succeed(nabla_plan_write(plan, &where, NULL, &summary, &diag), &diag);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
}

nabla_tensor model_tensor_of(const nabla_checkpoint *checkpoint,
                             const char *name) {
  const size_t index = nabla_checkpoint_find(checkpoint, name, strlen(name));
  require(index != SIZE_MAX, name);
  return nabla_checkpoint_tensor(checkpoint, index);
}

void *model_bytes(const nabla_checkpoint *checkpoint, const char *name,
                  size_t *out_size) {
  nabla_diag diag = NABLA_DIAG_INIT;
  for (uint32_t s = 0; s < nabla_checkpoint_shard_count(checkpoint); s++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(checkpoint, s);
    const size_t index = nabla_tensor_file_find(file, name, strlen(name));
    if (index == SIZE_MAX) continue;
    const size_t size = (size_t)nabla_tensor_file_entry(file, index).bytes;
    void *out = malloc(size ? size : 1);
    require(out != NULL, "malloc");
    succeed(nabla_tensor_file_read(file, index, 0, out, size, &diag), &diag);
    if (out_size) *out_size = size;
    return out;
  }
  require(0, name);
  return NULL;
}

uint8_t *model_slurp(const char *path, size_t *out_size) {
  struct stat info;
  FILE *file = fopen(path, "rb");
  require(file != NULL, path);
  require(fstat(fileno(file), &info) == 0, path);
  const size_t size = (size_t)info.st_size;
  uint8_t *out = malloc(size + 1);
  require(out != NULL, "malloc");
  require(fread(out, 1, size, file) == size, path);
  fclose(file);
  out[size] = 0;
  *out_size = size;
  return out;
}

int model_same_files(const char *a, const char *b) {
  size_t size_a, size_b;
  uint8_t *data_a = model_slurp(a, &size_a), *data_b = model_slurp(b, &size_b);
  const int same = size_a == size_b && !memcmp(data_a, data_b, size_a);
  free(data_a);
  free(data_b);
  return same;
}

int model_exists(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0;
}

size_t model_count_names(const char *folder) {
  size_t count = 0;
  DIR *names = opendir(folder);
  require(names != NULL, folder);
  while (readdir(names) != NULL) count++;
  closedir(names);
  return count - 2; /* "." and ".." */
}

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *where) {
  (void)info, (void)kind, (void)where;
  return remove(path);
}

void model_remove_tree(const char *path) {
  require(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, path);
}
