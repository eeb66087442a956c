/* Meshes and partitions (nabla/shard.h). A mesh is that of the dialect; its
 * name in programs is made of its axes, so that equal meshes are one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array/mesh/partition.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "nabla/comm.h"

/* The mesh comes first: it is what users have. */
typedef struct owned_mesh {
  nabla_mesh mesh;
  const nabla_allocator *allocator;
} owned_mesh;

/* ---- meshes ---- */

static bool is_word(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    const char c = text[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
          (c >= '0' && c <= '9')))
      return false;
  }
  return size > 0;
}

static nabla_status refuse_text(const char *text, nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "nabla_mesh_create: '%.60s' is no list of axes", text);
  nabla_diag_set_next(diag,
                      "write \"data=2,model=4\": names of at most %d "
                      "letters, digits and '_', sizes from 1 on",
                      NABLA_AXIS_NAME - 1);
  return status;
}

/* Adds an axis, "data=2". */
static nabla_status add_axis(nabla_mesh *mesh, const char *text,
                             const char *one, size_t length, nabla_diag *diag) {
  const char *equals = memchr(one, '=', length);
  char *end = NULL;
  const size_t name = equals ? (size_t)(equals - one) : 0;
  const bool has_digit =
      equals && name + 1 < length && equals[1] >= '0' && equals[1] <= '9';
  const long long size = has_digit ? strtoll(equals + 1, &end, 10) : 0;
  if (!has_digit || end != one + length || size < 1 ||
      name >= NABLA_AXIS_NAME || !is_word(one, name))
    return refuse_text(text, diag);
  if (mesh->count == NABLA_MESH_MAX_AXES)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "nabla_mesh_create: more than %d axes",
                      NABLA_MESH_MAX_AXES);
  char *axis = mesh->axes[mesh->count];
  memcpy(axis, one, name);
  if (nabla_mesh_axis(mesh, axis) >= 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "nabla_mesh_create: the axis '%s' twice", axis);
  if (size > NABLA_COMM_MAX_RANKS / mesh->devices)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "nabla_mesh_create: '%.60s' has more than %u devices",
                      text, NABLA_COMM_MAX_RANKS);
  mesh->sizes[mesh->count++] = size;
  mesh->devices *= size;
  const size_t used = strlen(mesh->name);
  const int added = snprintf(mesh->name + used, sizeof mesh->name - used,
                             ".%.*s.%lld", (int)name, one, size);
  return (size_t)added < sizeof mesh->name - used
             ? NABLA_OK
             : nabla_fail(diag, NABLA_TOO_LARGE,
                          "nabla_mesh_create: the names and sizes of axes have "
                          "more than %zu bytes",
                          sizeof mesh->name - 6);
}

nabla_status nabla_mesh_create(const char *axes,
                               const nabla_allocator *allocator,
                               nabla_mesh **out, nabla_diag *diag) {
  NABLA_REQUIRE(axes, diag);
  NABLA_REQUIRE(out, diag);
  void *memory;
  nabla_mesh mesh = {.name = "mesh", .devices = 1};
  if (!*axes) return refuse_text(axes, diag);
  for (const char *at = axes; at;) {
    const size_t length = strcspn(at, ",");
    NABLA_TRY(add_axis(&mesh, axes, at, length, diag));
    at = at[length] ? at + length + 1 : NULL;
  }
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(owned_mesh), &memory, diag));
  owned_mesh *owned = memory;
  *owned = (owned_mesh){mesh, allocator};
  *out = &owned->mesh;
  return NABLA_OK;
}

void nabla_mesh_destroy(nabla_mesh *mesh) {
  if (!mesh) return;
  owned_mesh *owned = (owned_mesh *)(void *)mesh;
  nabla_free(owned->allocator, owned, 1, sizeof *owned);
}

uint32_t nabla_mesh_size(const nabla_mesh *mesh) {
  return (uint32_t)mesh->devices;
}

/* ---- partitions ---- */

nabla_partition nabla_partition_of(const nabla_mesh *mesh, size_t rank,
                                   const char *const *dims) {
  nabla_partition out = {.mesh = mesh, .rank = (uint32_t)rank};
  for (size_t i = 0; dims && i < rank && i < NABLA_ARRAY_MAX_RANK; i++)
    out.dims[i] = dims[i];
  return out;
}

/* Reads "x", or "x:(2)2". */
static bool read_ref(const char *text, size_t size, nabla_axis_ref *out) {
  const char *colon = memchr(text, ':', size);
  const size_t name = colon ? (size_t)(colon - text) : size;
  return name < NABLA_AXIS_NAME && is_word(text, name) &&
         nabla_axis_parse(text, size, out);
}

/* Reads "x,y:(2)2". */
static nabla_status read_dim(const char *text, uint32_t dim,
                             nabla_axis_list *out, nabla_diag *diag) {
  for (const char *at = text; at;) {
    const size_t length = strcspn(at, ",");
    if (out->count == NABLA_MESH_MAX_AXES ||
        !read_ref(at, length, &out->at[out->count]))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "a partition: '%.60s' of dimension %" PRIu32
                        " is no list of axes such as \"x,y\" or \"x:(2)2\"",
                        text, dim);
    out->count++;
    at = at[length] ? at + length + 1 : NULL;
  }
  return NABLA_OK;
}

nabla_status nabla_partition_read(const nabla_partition *partition,
                                  nabla_sharding *out, nabla_diag *diag) {
  char message[NABLA_MESSAGE_SIZE];
  NABLA_REQUIRE(partition, diag);
  if (!partition->mesh)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a partition: its mesh is NULL");
  if (partition->rank > NABLA_ARRAY_MAX_RANK)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a partition of %" PRIu32 " dimensions; at most %d",
                      partition->rank, NABLA_ARRAY_MAX_RANK);
  *out = (nabla_sharding){.rank = partition->rank};
  memcpy(out->mesh, partition->mesh->name, sizeof out->mesh);
  for (uint32_t i = 0; i < partition->rank; i++) {
    out->dims[i].priority = -1;
    if (partition->dims[i])
      NABLA_TRY(read_dim(partition->dims[i], i, &out->dims[i].axes, diag));
  }
  if (!nabla_sharding_check(partition->mesh, out, partition->rank, message))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a partition: %s", message);
  return NABLA_OK;
}

nabla_status nabla_partition_text(const nabla_partition *partition, char *out,
                                  size_t size, nabla_diag *diag) {
  NABLA_REQUIRE(partition, diag);
  NABLA_REQUIRE(out, diag);
  static const char head[] = "#nabla.sharding<";
  nabla_sharding sharding;
  NABLA_TRY(nabla_partition_read(partition, &sharding, diag));
  const size_t start = sizeof head - 1;
  const size_t length = nabla_sharding_print(&sharding, NULL, 0);
  if (start + length + 2 > size)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "nabla_partition_text: %zu bytes are needed, not %zu",
                      start + length + 2, size);
  memcpy(out, head, start);
  (void)nabla_sharding_print(&sharding, out + start, size - start);
  memcpy(out + start + length, ">", 2);
  return NABLA_OK;
}

nabla_status nabla_partition_shards(const nabla_partition *partition,
                                    uint32_t *out, nabla_diag *diag) {
  NABLA_REQUIRE(partition, diag);
  NABLA_REQUIRE(out, diag);
  nabla_sharding sharding;
  NABLA_TRY(nabla_partition_read(partition, &sharding, diag));
  *out = 1;
  for (uint32_t i = 0; i < sharding.rank; i++)
    *out *= (uint32_t)nabla_axes_size(partition->mesh, &sharding.dims[i].axes);
  return NABLA_OK;
}

/* ---- shapes ---- */

static nabla_status refuse_size(int64_t size, uint32_t dim, nabla_diag *diag) {
  return nabla_fail(diag, size < 0 ? NABLA_INVALID_ARGUMENT : NABLA_TOO_LARGE,
                    "a partition: dimension %" PRIu32 " has the size %" PRId64,
                    dim, size);
}

nabla_status nabla_local_shape(const nabla_partition *partition,
                               const int64_t *global, int64_t *out,
                               nabla_diag *diag) {
  NABLA_REQUIRE(partition, diag);
  NABLA_REQUIRE(global, diag);
  NABLA_REQUIRE(out, diag);
  nabla_sharding sharding;
  NABLA_TRY(nabla_partition_read(partition, &sharding, diag));
  for (uint32_t i = 0; i < sharding.rank; i++) {
    const int64_t parts =
        nabla_axes_size(partition->mesh, &sharding.dims[i].axes);
    if (global[i] < 0) return refuse_size(global[i], i, diag);
    out[i] = global[i] / parts + (global[i] % parts != 0);
  }
  return NABLA_OK;
}

nabla_status nabla_global_shape(const nabla_partition *partition,
                                const int64_t *local, int64_t *out,
                                nabla_diag *diag) {
  NABLA_REQUIRE(partition, diag);
  NABLA_REQUIRE(local, diag);
  NABLA_REQUIRE(out, diag);
  nabla_sharding sharding;
  NABLA_TRY(nabla_partition_read(partition, &sharding, diag));
  for (uint32_t i = 0; i < sharding.rank; i++) {
    const int64_t parts =
        nabla_axes_size(partition->mesh, &sharding.dims[i].axes);
    if (local[i] < 0 || local[i] > ((int64_t)1 << 62) / parts)
      return refuse_size(local[i], i, diag);
    out[i] = local[i] * parts;
  }
  return NABLA_OK;
}

/* Takes away the axes of size 1. */
static void shorten(const nabla_mesh *mesh, nabla_axis_list *axes) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < axes->count; i++)
    if (mesh->sizes[nabla_mesh_axis(mesh, axes->at[i].name)] > 1)
      axes->at[kept++] = axes->at[i];
  axes->count = kept;
}

nabla_status nabla_needs_reshard(const nabla_partition *from,
                                 const nabla_partition *to, int *out,
                                 nabla_diag *diag) {
  NABLA_REQUIRE(from, diag);
  NABLA_REQUIRE(to, diag);
  NABLA_REQUIRE(out, diag);
  nabla_sharding a, b;
  NABLA_TRY(nabla_partition_read(from, &a, diag));
  NABLA_TRY(nabla_partition_read(to, &b, diag));
  if (strcmp(a.mesh, b.mesh) != 0 || a.rank != b.rank)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "nabla_needs_reshard: partitions of other meshes, or "
                      "ranks");
  *out = 0;
  for (uint32_t i = 0; i < a.rank; i++) {
    nabla_axis_list *x = &a.dims[i].axes, *y = &b.dims[i].axes;
    shorten(from->mesh, x);
    shorten(to->mesh, y);
    *out |= x->count != y->count;
    for (uint32_t k = 0; k < x->count && k < y->count; k++)
      *out |= strcmp(x->at[k].name, y->at[k].name) != 0 ||
              x->at[k].before != y->at[k].before ||
              x->at[k].size != y->at[k].size;
  }
  return NABLA_OK;
}
