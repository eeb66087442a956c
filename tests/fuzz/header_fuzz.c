/* A whole safetensors file, opened, walked, read, written again. */
#include <stdlib.h>
#include <string.h>

#include "nabla/safetensors.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "S";

#define PATH "/m.safetensors"
#define COPY "/copy.safetensors"

/* Windows and buffers of fixed size; the rest follows the input. */
enum { FIXED_PEAK = 1 << 20, PEAK_PER_BYTE = 64, MAX_COPIED = 64 };

static void check_read(const nabla_tensor_file *file, size_t index,
                       fuzz_span input) {
  nabla_entry entry = nabla_tensor_file_entry(file, index);
  nabla_diag diag = NABLA_DIAG_INIT;
  uint8_t byte = 0;
  nabla_status status =
      nabla_tensor_file_read(file, index, entry.bytes, &byte, 1, &diag);
  fuzz_require(status == NABLA_INVALID_ARGUMENT, "no read beyond a tensor");
  fuzz_check_diag(status, &diag);
  if (entry.bytes == 0) return;
  const uint64_t places[] = {0, entry.bytes - 1};
  for (size_t i = 0; i < 2; i++) {
    status = nabla_tensor_file_read(file, index, places[i], &byte, 1, &diag);
    fuzz_require(!status, "the bytes of a tensor can be read");
    fuzz_require(byte == input.data[entry.offset + places[i]],
                 "they are those at its offset");
  }
}

/* Returns 1 when the writer can hold every name. */
static int walk(const nabla_tensor_file *file, fuzz_span input) {
  size_t count = nabla_tensor_file_count(file);
  int writable = count <= MAX_COPIED;
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    nabla_entry entry = nabla_tensor_file_entry(file, i);
    fuzz_require(strlen(entry.name) == entry.name_length, "a name ends");
    fuzz_require(
        nabla_tensor_file_find(file, entry.name, entry.name_length) == i,
        "a tensor is found by its name");
    fuzz_require(i == 0 || entry.offset == end, "no holes, no overlap");
    fuzz_require(fuzz_is_product(entry.shape, entry.rank, entry.elements),
                 "the product of the shape");
    fuzz_require(
        entry.bytes * 8 == entry.elements * nabla_dtype_bits(entry.dtype),
        "shape and bytes agree");
    end = entry.offset + entry.bytes;
    writable &= entry.name_length > 0;
    check_read(file, i, input);
  }
  fuzz_require(count == 0 || end == input.size, "data ends with the file");
  fuzz_require(nabla_tensor_file_find(file, "no such tensor", 14) == SIZE_MAX,
               "what is not there is not found");
  for (size_t i = 0; i < nabla_tensor_file_metadata_count(file); i++) {
    const char *key, *value;
    nabla_tensor_file_metadata(file, i, &key, &value);
    fuzz_require(strlen(key) + strlen(value) <= input.size, "texts end");
  }
  return writable;
}

static nabla_status write_copy(const nabla_tensor_file *file,
                               nabla_safetensors_writer *writer,
                               fuzz_span input, nabla_diag *diag) {
  size_t count = nabla_tensor_file_count(file);
  for (size_t i = 0; i < nabla_tensor_file_metadata_count(file); i++) {
    const char *key, *value;
    nabla_tensor_file_metadata(file, i, &key, &value);
    NABLA_TRY(nabla_safetensors_writer_add_metadata(writer, key, value, diag));
  }
  for (size_t i = 0; i < count; i++) {
    nabla_entry entry = nabla_tensor_file_entry(file, i);
    size_t id;
    NABLA_TRY(nabla_safetensors_writer_add(writer, entry.name,
                                           entry.name_length, entry.dtype,
                                           entry.shape, entry.rank, &id, diag));
    fuzz_require(id == i, "ids count from 0");
  }
  NABLA_TRY(nabla_safetensors_writer_begin(writer, COPY, 0, diag));
  for (size_t i = 0; i < count; i++) {
    nabla_entry entry = nabla_tensor_file_entry(file, i);
    NABLA_TRY(nabla_safetensors_writer_write(
        writer, i, 0, input.data + entry.offset, (size_t)entry.bytes, diag));
  }
  return nabla_safetensors_writer_commit(writer, diag);
}

static void compare_copy(const nabla_tensor_file *file, fuzz_world *world,
                         fuzz_span input) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *copy = NULL;
  nabla_status status = nabla_tensor_file_open(COPY, &world->memory.allocator,
                                               &world->files.os, &copy, &diag);
  fuzz_require(!status, "what was written opens");
  size_t size = 0, count = nabla_tensor_file_count(file);
  const uint8_t *bytes = memory_os_get(&world->files, COPY, &size);
  fuzz_require(count == nabla_tensor_file_count(copy), "all was written");
  for (size_t i = 0; i < count; i++) {
    nabla_entry a = nabla_tensor_file_entry(file, i);
    size_t at = nabla_tensor_file_find(copy, a.name, a.name_length);
    fuzz_require(at != SIZE_MAX, "a written name is read");
    nabla_entry b = nabla_tensor_file_entry(copy, at);
    fuzz_require(a.dtype == b.dtype && a.rank == b.rank && a.bytes == b.bytes &&
                     (a.rank == 0 ||
                      !memcmp(a.shape, b.shape, a.rank * sizeof *a.shape)),
                 "a written tensor is read as it was");
    fuzz_require(a.bytes == 0 || !memcmp(input.data + a.offset,
                                         bytes + b.offset, (size_t)a.bytes),
                 "its bytes too");
  }
  nabla_tensor_file_close(copy);
}

static void copy(const nabla_tensor_file *file, fuzz_world *world,
                 fuzz_span input) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_safetensors_writer *writer = NULL;
  nabla_status status = nabla_safetensors_writer_create(
      &world->memory.allocator, &world->files.os, &writer, &diag);
  fuzz_require(!status, "a writer can be made");
  status = write_copy(file, writer, input, &diag);
  nabla_safetensors_writer_destroy(writer);
  fuzz_require(!status, "what was read can be written");
  compare_copy(file, world, input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_span input = {data, size};
  fuzz_world world;
  fuzz_world_init(&world, 0);
  memory_os_put(&world.files, PATH, data, size);
  nabla_tensor_file *file = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = nabla_tensor_file_open(PATH, &world.memory.allocator,
                                               &world.files.os, &file, &diag);
  fuzz_check_diag(status, &diag);
  fuzz_require(!status == (file != NULL), "a handle comes with success alone");
  if (!status) {
    if (walk(file, input)) copy(file, &world, input);
    fuzz_require(!nabla_tensor_file_check_unchanged(file, &diag),
                 "a file that stays is unchanged");
    nabla_tensor_file_close(file);
  }
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
  return 0;
}
