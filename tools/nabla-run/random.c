/* "random:4x128": an array made up, the same each time. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "tools/nabla-run/run.h"

#define PREFIX "random:"

int run_is_random(const char *text) {
  return !strncmp(text, PREFIX, strlen(PREFIX));
}

/* Reads "4x128", or "" for a scalar. */
static int read_shape(const char *text, nabla_dense *out, uint64_t *count) {
  *count = 1;
  while (*text) {
    char *end;
    if (*text < '0' || *text > '9' || out->rank == NABLA_ARRAY_MAX_RANK)
      return 0;
    unsigned long long dim = strtoull(text, &end, 10);
    if (dim > INT64_MAX || !nabla_mul_u64(*count, dim, count)) return 0;
    out->shape[out->rank++] = (int64_t)dim;
    if (*end == 'x' && end[1])
      end++;
    else if (*end)
      return 0;
    text = end;
  }
  return 1;
}

/* splitmix64 (Steele, Lea, Flood, 2014), as a float in [-1, 1) */
static float value_of(uint64_t seed, uint64_t index) {
  uint64_t z = (seed << 48) + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return (float)((double)(z >> 40) * 0x1p-23 - 1.0);
}

nabla_status run_make_random(const char *text, const nabla_port *port,
                             uint64_t seed,
                             const nabla_environment *environment,
                             nabla_dense *out, nabla_diag *diag) {
  nabla_dense array = {.dtype = port->dtype};
  uint64_t count, bytes;
  if (!nabla_dtype_is_float(port->dtype))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "argument '%s' is no array of floats: give a file, "
                      "--input %s=FILE.npy",
                      port->name, port->name);
  if (!read_shape(text + strlen(PREFIX), &array, &count) ||
      !nabla_mul_u64(count, nabla_dtype_bits(port->dtype) / 8, &bytes)) {
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT, "--input %s=%s names no shape",
                   port->name, text);
    nabla_diag_set_next(diag, "write it as random:4x128");
    return status;
  }
  NABLA_TRY(nabla_alloc(environment->allocator, bytes, 1, &array.data, diag));
  for (uint64_t i = 0; i < count; i++) {
    float value = value_of(seed, i);
    (void)nabla_from_f32(port->dtype, &value, 1,
                         (char *)array.data + i * (bytes / count));
  }
  *out = array;
  return NABLA_OK;
}
