/* A packed safetensors file through the whole library: verified, decoded,
 * compared, quantized again; also with an allocation that fails. */
#include <stdlib.h>
#include <string.h>

#include "nabla/measure.h"
#include "nabla/quantize.h"
#include "tests/fuzz/fuzz.h"

/* Option bytes: dtype to decode to (2 bits) and settings to encode with (see
 * settings_of), encoding to encode with, which allocation fails, bytes of one
 * read. */
const char fuzz_shape[] = "bS";

#define INPUT   "/m.safetensors"
#define DENSE   "/dense.safetensors"
#define PACKED  "/packed"
#define REFUSED "/refused.safetensors"

/* Buffers of one worker, twice (a comparison), windows; tensors. */
enum { FIXED_PEAK = 24 << 20, PEAK_PER_BYTE = 128 };

static nabla_dequantize_options decode_options(const uint8_t *options) {
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                       NABLA_DTYPE_BF16, NABLA_DTYPE_F32};
  return (nabla_dequantize_options){
      .struct_size = sizeof(nabla_dequantize_options),
      .has_dtype = options[0] % 4 != 3,
      .dtype = dtypes[options[0] % 4],
      .isa = NABLA_ISA_BEST};
}

static nabla_checkpoint *open_checkpoint(const nabla_environment *environment,
                                         const char *path,
                                         nabla_status *out_status) {
  nabla_checkpoint *checkpoint = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  *out_status = nabla_checkpoint_open(path, environment, &checkpoint, &diag);
  fuzz_check_diag(*out_status, &diag);
  fuzz_require(!*out_status == (checkpoint != NULL),
               "a handle comes with success alone");
  return checkpoint;
}

/* Compares by values; a tensor that cannot be decoded ends it. */
static void compare(const nabla_checkpoint *a, const nabla_checkpoint *b,
                    const nabla_environment *environment) {
  nabla_difference_summary summary = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_compare(a, b, environment, NULL, NULL, &summary, &diag);
  fuzz_check_diag(status, &diag);
  if (status) {
    fuzz_require(status == NABLA_UNSUPPORTED, "what is equal compares");
    return;
  }
  fuzz_require(summary.problems == 0 && summary.equal == summary.tensors &&
                   summary.worst_rel_rmse == 0.0,
               "equal values are equal");
}

static int has_unsupported(const nabla_checkpoint *checkpoint) {
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++)
    if (nabla_checkpoint_tensor(checkpoint, i).unsupported) return 1;
  return 0;
}

static void look(const nabla_checkpoint *checkpoint,
                 const nabla_environment *environment) {
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint) && i < 4; i++) {
    nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    nabla_statistics statistics;
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_status status =
        nabla_tensor_statistics(checkpoint, i, environment, &statistics, &diag);
    fuzz_check_diag(status, &diag);
    int is_float = !tensor.unsupported && (tensor.format.encoding ||
                                           nabla_dtype_is_float(tensor.dtype));
    fuzz_require(status == (is_float ? NABLA_OK : NABLA_UNSUPPORTED),
                 "float tensors have statistics");
    if (!status)
      fuzz_require(statistics.elements == tensor.elements &&
                       statistics.min <= statistics.max,
                   "statistics are of all elements");
  }
}

/* Decodes to a new file, which then has the same values if it is exact. Codes
 * and scales that do not verify are refused. */
static void decode(const nabla_checkpoint *checkpoint, fuzz_world *world,
                   const nabla_environment *environment, const uint8_t *options,
                   nabla_status verified) {
  nabla_dequantize_options how = decode_options(options);
  nabla_write_options where = {.struct_size = sizeof where, .path = DENSE};
  nabla_write_summary summary;
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t before = memory_os_count(&world->files);
  nabla_status status =
      nabla_dequantize(checkpoint, &how, &where, environment, &summary, &diag);
  fuzz_check_diag(status, &diag);
  fuzz_require(memory_os_count(&world->files) == before + !status,
               "a file comes with success alone");
  if (status) {
    /* what cannot be decoded may also claim more than the disk holds */
    fuzz_require(status == NABLA_UNSUPPORTED || status == NABLA_NOT_FINITE ||
                     (status == NABLA_CORRUPT && verified) ||
                     (status == NABLA_IO && has_unsupported(checkpoint)),
                 "what verifies can be decoded");
    return;
  }
  nabla_checkpoint *dense = open_checkpoint(environment, DENSE, &status);
  fuzz_require(!status, "what was written opens");
  for (size_t i = 0; i < nabla_checkpoint_count(dense); i++)
    fuzz_require(nabla_checkpoint_tensor(dense, i).layout == NABLA_LAYOUT_DENSE,
                 "nothing is packed any more");
  if (how.has_dtype && how.dtype == NABLA_DTYPE_F32)
    compare(checkpoint, dense, environment);
  nabla_checkpoint_close(dense);
}

/* Scale type, zero points, leading blocks, search; the encoding may lack them.
 */
static nabla_settings settings_of(const uint8_t *options) {
  static const nabla_scale_type scales[] = {
      NABLA_SCALE_F32, NABLA_SCALE_F16, NABLA_SCALE_BF16, NABLA_SCALE_DYNAMIC8};
  return (nabla_settings){.block = options[1] & 0x80 ? 32 : 0,
                          .has_scale = options[0] >> 2 & 3,
                          .scale = scales[options[0] >> 2 & 3],
                          .zero_point = options[0] >> 4 & 1,
                          .leading = options[0] >> 5 & 1,
                          .search = options[0] >> 6 & 1};
}

static nabla_status encode_to(const nabla_checkpoint *checkpoint,
                              const nabla_environment *environment,
                              const uint8_t *options, nabla_diag *diag) {
  size_t encodings;
  const nabla_encoding *rows = nabla_encodings(&encodings);
  size_t choice = options[1] % (encodings + 1);
  nabla_quantize_rule rule = {
      .pattern = "a",
      .encoding = choice < encodings ? &rows[choice] : NULL,
      .settings = settings_of(options)};
  nabla_quantize_options how = {
      .struct_size = sizeof how,
      .encoding = rule.encoding,
      .settings = settings_of(options),
      .layout =
          options[0] & 0x80 ? NABLA_CHOOSE_BITSANDBYTES : NABLA_CHOOSE_AUTO,
      .nonfinite =
          options[1] & 0x40 ? NABLA_NONFINITE_KEEP : NABLA_NONFINITE_REFUSE,
      .rules = &rule,
      .rule_count = options[1] >> 5 & 1};
  nabla_plan *plan = NULL;
  NABLA_TRY(nabla_plan_create(checkpoint, &how, environment, &plan, diag));
  fuzz_require(nabla_plan_count(plan) == nabla_checkpoint_count(checkpoint),
               "every tensor is planned");
  nabla_write_options where = {.struct_size = sizeof where, .path = PACKED};
  nabla_write_summary summary;
  nabla_status status =
      nabla_plan_write(plan, &where, environment, &summary, diag);
  nabla_plan_destroy(plan);
  return status;
}

/* Quantizes what there is; the result verifies. */
static void encode(const nabla_checkpoint *checkpoint, fuzz_world *world,
                   const nabla_environment *environment,
                   const uint8_t *options) {
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t before = memory_os_count(&world->files), size;
  nabla_status status = encode_to(checkpoint, environment, options, &diag);
  fuzz_check_diag(status, &diag);
  if (status) {
    fuzz_require(memory_os_count(&world->files) == before,
                 "nothing is left of a failure");
    return;
  }
  fuzz_require(
      memory_os_get(&world->files, PACKED "/model.safetensors", &size) != NULL,
      "a folder holds its file");
  nabla_verify_summary summary;
  status = nabla_verify(PACKED, environment, NULL, NULL, &summary, &diag);
  fuzz_require(!status || status == NABLA_UNSUPPORTED ||
                   status == NABLA_NOT_FINITE || status == NABLA_CORRUPT,
               "what was written verifies");
  nabla_checkpoint *again = open_checkpoint(environment, PACKED, &status);
  fuzz_require(!status, "what was written opens");
  fuzz_require(
      nabla_checkpoint_count(again) == nabla_checkpoint_count(checkpoint),
      "every tensor was written");
  nabla_checkpoint_close(again);
}

/* The same with one allocation failing: nothing leaks, no half file. */
static void fail_once(fuzz_span file, const uint8_t *options) {
  fuzz_world world;
  fuzz_world_init(&world, options[2]);
  memory_os_put(&world.files, INPUT, file.data, file.size);
  nabla_environment environment = {.allocator = &world.memory.allocator,
                                   .os = &world.files.os};
  nabla_status status;
  nabla_checkpoint *checkpoint = open_checkpoint(&environment, INPUT, &status);
  if (!status) {
    nabla_dequantize_options how = decode_options(options);
    nabla_write_options where = {.struct_size = sizeof where, .path = REFUSED};
    nabla_write_summary summary;
    nabla_diag diag = NABLA_DIAG_INIT;
    status = nabla_dequantize(checkpoint, &how, &where, &environment, &summary,
                              &diag);
    fuzz_check_diag(status, &diag);
  }
  fuzz_require(memory_os_count(&world.files) == 1u + !status,
               "a file comes with success alone");
  if (world.memory.failures > 0)
    fuzz_require(status != NABLA_OK, "no memory is no success");
  nabla_checkpoint_close(checkpoint);
  fuzz_world_end(&world, SIZE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < FUZZ_OPTIONS) return 0;
  fuzz_span file = {data + FUZZ_OPTIONS, size - FUZZ_OPTIONS};
  fuzz_world world;
  fuzz_world_init(&world, 0);
  memory_os_put(&world.files, INPUT, file.data, file.size);
  world.files.max_read = data[3] ? data[3] : UINT64_MAX;
  nabla_environment environment = {.allocator = &world.memory.allocator,
                                   .os = &world.files.os};
  nabla_status status;
  nabla_checkpoint *checkpoint = open_checkpoint(&environment, INPUT, &status);
  nabla_verify_summary summary = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status verified =
      nabla_verify(INPUT, &environment, NULL, NULL, &summary, &diag);
  fuzz_check_diag(verified, &diag);
  if (status) {
    fuzz_require(verified == status, "verifying opens");
  } else {
    if (has_unsupported(checkpoint))
      fuzz_require(verified != NABLA_OK, "verifying means decoding");
    look(checkpoint, &environment);
    compare(checkpoint, checkpoint, &environment);
    decode(checkpoint, &world, &environment, data, verified);
    encode(checkpoint, &world, &environment, data);
    if (data[2]) fail_once(file, data);
  }
  nabla_checkpoint_close(checkpoint);
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
  return 0;
}
