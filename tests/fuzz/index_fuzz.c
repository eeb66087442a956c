/* An index and up to two shards, opened as a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "nabla/measure.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "JSS";

#define FOLDER "/m"

/* The table of shards and the windows; the rest follows the input. */
enum { FIXED_PEAK = 4 << 20, PEAK_PER_BYTE = 128 };

static void check_tensor(const nabla_checkpoint *checkpoint, size_t index) {
  nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, index);
  fuzz_require(strlen(tensor.name) == tensor.name_length, "a name ends");
  fuzz_require(nabla_checkpoint_find(checkpoint, tensor.name,
                                     tensor.name_length) == index,
               "a tensor is found by its name");
  fuzz_require(tensor.data.shard < nabla_checkpoint_shard_count(checkpoint),
               "a tensor is in a shard");
  const nabla_tensor_file *shard =
      nabla_checkpoint_borrow_shard(checkpoint, tensor.data.shard);
  fuzz_require(tensor.data.entry < nabla_tensor_file_count(shard),
               "a tensor is in its shard");
  nabla_entry entry = nabla_tensor_file_entry(shard, tensor.data.entry);
  fuzz_require(!strcmp(entry.name, tensor.name), "under its name");
}

static void check(const nabla_checkpoint *checkpoint) {
  fuzz_require(nabla_checkpoint_has_index(checkpoint), "it has an index");
  uint32_t shards = nabla_checkpoint_shard_count(checkpoint);
  fuzz_require(shards == 1 || shards == 2, "there are one or two shards");
  for (uint32_t i = 0; i < shards; i++) {
    const char *name = nabla_checkpoint_shard_name(checkpoint, i);
    fuzz_require(
        !strcmp(name, "a.safetensors") || !strcmp(name, "b.safetensors"),
        "shards are the files that exist");
  }
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++)
    check_tensor(checkpoint, i);
}

/* Whatever opens can be verified; whatever does not cannot. */
static void verify(const char *path, const nabla_environment *environment,
                   nabla_status opened) {
  nabla_verify_summary summary = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_verify(path, environment, NULL, NULL, &summary, &diag);
  fuzz_check_diag(status, &diag);
  if (opened) fuzz_require(status == opened, "verifying opens");
  if (!status) fuzz_require(summary.problems == 0, "no problem is success");
}

static nabla_status open_checkpoint(const char *path,
                                    const nabla_environment *environment) {
  nabla_checkpoint *checkpoint = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_checkpoint_open(path, environment, &checkpoint, &diag);
  fuzz_check_diag(status, &diag);
  fuzz_require(!status == (checkpoint != NULL),
               "a handle comes with success alone");
  if (!status) check(checkpoint);
  nabla_checkpoint_close(checkpoint);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const paths[] = {FOLDER "/" NABLA_INDEX_NAME,
                                      FOLDER "/a.safetensors",
                                      FOLDER "/b.safetensors"};
  fuzz_world world;
  fuzz_world_init(&world, 0);
  memory_os_put_folder(&world.files, FOLDER);
  for (size_t i = 0; i < 3; i++) {
    fuzz_span part = fuzz_part((fuzz_span){data, size}, i, 3);
    memory_os_put(&world.files, paths[i], part.data, part.size);
  }
  /* what names that leave the folder, or hide, would lead to */
  static const char *const decoys[] = {FOLDER "/../a.safetensors",
                                       FOLDER "//a.safetensors",
                                       FOLDER "/.hidden", FOLDER "/a/b"};
  fuzz_span decoy = fuzz_part((fuzz_span){data, size}, 1, 3);
  for (size_t i = 0; i < sizeof decoys / sizeof *decoys; i++)
    memory_os_put(&world.files, decoys[i], decoy.data, decoy.size);
  nabla_environment environment = {.allocator = &world.memory.allocator,
                                   .os = &world.files.os};
  nabla_status status = open_checkpoint(paths[0], &environment);
  fuzz_require(open_checkpoint(FOLDER, &environment) == status,
               "a folder is its index");
  verify(FOLDER, &environment, status);
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
  return 0;
}
