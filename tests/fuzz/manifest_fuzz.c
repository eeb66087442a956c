/* Any text as the manifest of compiled code: what is accepted keeps its
 * promises, and so does an executable made of it. */
#include <stdlib.h>
#include <string.h>

#include "lib/runtime/program/code.h"
#include "lib/runtime/program/manifest.h"
#include "lib/runtime/weight/components.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "J";

/* A port takes about six times the least text that makes one; buffers that
 * grow hold two copies for a moment. */
enum { FIXED_PEAK = 1 << 17, PEAK_PER_BYTE = 64, MAX_RUN = 16 };

static void check_port(const nabla_port *port, int is_argument) {
  fuzz_require(port->name && port->encoding_name, "ports have names");
  fuzz_require(port->rank <= NABLA_ARRAY_MAX_RANK, "the rank is bounded");
  fuzz_require(nabla_dtype_bits(port->dtype) >= 8, "elements are bytes");
  uint64_t bytes = nabla_dtype_bits(port->dtype) / 8, elements = 1;
  for (uint32_t i = 0; i < port->rank; i++) {
    fuzz_require(port->shape[i] >= NABLA_DYNAMIC, "sizes are not negative");
    if (port->shape[i] == NABLA_DYNAMIC) continue;
    fuzz_require(
        !__builtin_mul_overflow(bytes, (uint64_t)port->shape[i], &bytes),
        "sizes do not overflow");
    elements *= (uint64_t)port->shape[i];
  }
  fuzz_require(is_argument || !*port->encoding_name, "results are dense");
  fuzz_require(!is_argument || !port->packed, "arguments are packed as such");
  if (port->layout.kind == NABLA_STORAGE_DENSE) {
    fuzz_require(!port->component_count, "only what is packed has components");
    return;
  }
  nabla_component_slots slots;
  fuzz_require(strstr(port->encoding_name,
                      port->layout.kind == NABLA_STORAGE_BLOCKS
                          ? port->layout.ggml->name
                          : port->layout.format.encoding->name) != NULL,
               "the encoding is the named one");
  fuzz_require(!nabla_storage_components(&port->layout, port->dtype, elements,
                                         &slots, NULL),
               "the sizes can be computed");
  fuzz_require(port->component_count == slots.count, "all are there");
}

/* A packed result, and the components that follow from it. */
static void check_packed(const nabla_signature *function, size_t at) {
  const nabla_port *packed = function->results[at].packed;
  uint64_t elements = 1;
  if (!packed) return;
  check_port(packed, 1);
  for (uint32_t i = 0; i < packed->rank; i++)
    elements *= (uint64_t)packed->shape[i];
  nabla_component_slots slots;
  fuzz_require(!nabla_storage_components(&packed->layout, packed->dtype,
                                         elements, &slots, NULL) &&
                   slots.count && slots.count <= function->result_count - at,
               "the components are there");
  for (uint32_t i = 0; i < slots.count; i++) {
    const nabla_port *part = &function->results[at + i];
    uint64_t bytes = nabla_dtype_bits(part->dtype) / 8;
    for (uint32_t d = 0; d < part->rank; d++) bytes *= (uint64_t)part->shape[d];
    fuzz_require(bytes == slots.at[i].bytes, "components have their bytes");
  }
}

static void check(const nabla_manifest *manifest, size_t size) {
  size_t ports = 0;
  for (size_t i = 0; i < manifest->function_count; i++) {
    const nabla_signature *function = &manifest->functions[i];
    fuzz_require(*function->name && strlen(function->name) < size,
                 "functions have names");
    fuzz_require(nabla_manifest_find(manifest, function->name) == i,
                 "each is found by its own");
    for (size_t j = 0; j < function->argument_count; j++)
      check_port(&function->arguments[j], 1);
    for (size_t j = 0; j < function->result_count; j++)
      check_port(&function->results[j], 0), check_packed(function, j);
    ports += function->argument_count + function->result_count;
  }
  fuzz_require(ports == manifest->port_count, "every port is somebody's");
}

/* Code that fails at once, so that results need no descriptors. */
static void entry(const nabla_services *services, void *const *arguments,
                  void *const *results) {
  (void)arguments, (void)results;
  services->fail(services, NABLA_FAILURE_SHAPE, NULL, 1, 2);
}

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self, (void)symbol;
  return entry;
}

/* Runs functions with inputs that are as small as the function takes, and
 * empty where any size goes: no data is ever needed. */
static void run(nabla_executable *executable) {
  static nabla_dense inputs[NABLA_MANIFEST_MAX_PORTS];
  static nabla_dense outputs[NABLA_MANIFEST_MAX_PORTS];
  for (size_t i = 0; i < MAX_RUN; i++) {
    const nabla_signature *function = nabla_executable_function(executable, i);
    if (!function) return;
    size_t count = 0;
    for (size_t j = 0; j < function->argument_count; j++) {
      const nabla_port *port = &function->arguments[j];
      if (*port->encoding_name) continue;
      nabla_dense *input = &inputs[count++];
      *input = (nabla_dense){.dtype = port->dtype, .rank = port->rank};
      for (uint32_t d = 0; d < port->rank; d++)
        input->shape[d] = port->shape[d] == NABLA_DYNAMIC ? 0 : port->shape[d];
    }
    nabla_diag diag = NABLA_DIAG_INIT;
    const nabla_status status =
        nabla_executable_run(executable, function->name, inputs, count, outputs,
                             function->result_count, &diag);
    fuzz_require(status == NABLA_INVALID_ARGUMENT, "the code fails");
    fuzz_check_diag(status, &diag);
  }
}

static void make_executable(const nabla_allocator *allocator, fuzz_span input) {
  char *text = malloc(input.size + 1);
  fuzz_require(text != NULL, "there is memory");
  memcpy(text, input.data, input.size);
  text[input.size] = 0;
  const nabla_code code = {NULL, text, look_up, NULL, 0};
  const nabla_environment environment = {.allocator = allocator};
  nabla_executable *executable = NULL;
  fuzz_require(!nabla_executable_create(&code, &environment, &executable, NULL),
               "a good manifest makes an executable");
  run(executable);
  nabla_executable_close(executable);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_world world;
  fuzz_world_init(&world, 0);
  const nabla_allocator *allocator = &world.memory.allocator;
  nabla_manifest manifest = {.port_count = 77};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status = nabla_manifest_parse(
      allocator, (const char *)data, size, &manifest, &diag);
  fuzz_check_diag(status, &diag);
  if (status) {
    fuzz_require(manifest.port_count == 77, "outputs stay as they were");
  } else {
    check(&manifest, size);
    nabla_manifest_deinit(&manifest);
    make_executable(allocator, (fuzz_span){data, size});
  }
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
  return 0;
}
