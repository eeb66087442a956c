/* Shardings: over which axes of a mesh each dimension of an array is divided.
 * The text is Shardy's: docs/SHARDING.md. Functions are defined in
 * sharding_text.c, those of attributes and meshes in mesh.c, those
 * of shard_map in verify_shard_map.c. */
#ifndef NABLA_DIALECT_SHARD_SHARDING_H
#define NABLA_DIALECT_SHARD_SHARDING_H

#include "dialect/dialect.h"

#define NABLA_MESH_MAX_AXES 8
#define NABLA_AXIS_NAME     32 /* bytes of an axis' name, with the NUL */
#define NABLA_MESH_NAME     64

/* Largest number of devices of a mesh. */
#define NABLA_MESH_MAX_DEVICES ((int64_t)1 << 20)

/* An axis, or the part of `size` of it behind a part of `before`. */
typedef struct nabla_axis_ref {
  char name[NABLA_AXIS_NAME];
  int64_t before, size; /* size 0: the whole axis, `before` is 1 */
} nabla_axis_ref;

typedef struct nabla_axis_list {
  uint32_t count;
  nabla_axis_ref at[NABLA_MESH_MAX_AXES];
} nabla_axis_list;

typedef struct nabla_sharding_dim {
  nabla_axis_list axes;
  bool is_open; /* `?`: propagation may add axes */
  int priority; /* of pN; -1: none               */
} nabla_sharding_dim;

typedef struct nabla_sharding {
  char mesh[NABLA_MESH_NAME];
  uint32_t rank;
  nabla_sharding_dim dims[NABLA_MAX_RANK];
  nabla_axis_list replicated, partial;
  int partial_kind[NABLA_MESH_MAX_AXES]; /* numbers of Nabla_ReduceKind */
} nabla_sharding;

/* Reads "@m, [{...}, ...], ...". False: why is in `message`. */
bool nabla_sharding_parse(const char *text, size_t size, nabla_sharding *out,
                          char message[NABLA_MESSAGE_SIZE]);
/* Reads an axis as in a list of strings: `model`, or `model:(2)2`. */
bool nabla_axis_parse(const char *text, size_t size, nabla_axis_ref *out);
/* Reads the name of a mesh. */
bool nabla_mesh_name_parse(const char *text, size_t size,
                           char out[NABLA_MESH_NAME]);

/* Writes the text between "<" and ">". Returns its length, as snprintf. */
size_t nabla_sharding_print(const nabla_sharding *sharding, char *out,
                            size_t room);

/* Whether an attribute is a sharding; reads one. */
bool nabla_sharding_is(MlirAttribute attribute);
nabla_sharding nabla_sharding_read(MlirAttribute attribute);
MlirAttribute nabla_sharding_get(MlirContext context,
                                 const nabla_sharding *sharding);

/* ---- meshes ---- */

typedef struct nabla_mesh {
  char name[NABLA_MESH_NAME];
  uint32_t count; /* of axes */
  char axes[NABLA_MESH_MAX_AXES][NABLA_AXIS_NAME];
  int64_t sizes[NABLA_MESH_MAX_AXES];
  int64_t devices;
} nabla_mesh;

/* Reads an operation nabla.mesh. False: why is in `message`. */
bool nabla_mesh_read(MlirOperation op, nabla_mesh *out,
                     char message[NABLA_MESSAGE_SIZE]);
/* Finds the mesh of this name in the module around `op`; false where there is
 * none that reads. */
bool nabla_mesh_find(MlirOperation op, const char *name, nabla_mesh *out);

/* Number of the axis; -1: the mesh has none of this name. */
int nabla_mesh_axis(const nabla_mesh *mesh, const char *name);

/* Whether a list of axes names axes of the mesh, none twice, with sub-axes that
 * divide them, are maximal and do not overlap. `used` has the parts of axes
 * that were named before, a bit for each factor; it grows. */
bool nabla_axes_check(const nabla_mesh *mesh, const nabla_axis_list *axes,
                      uint64_t used[NABLA_MESH_MAX_AXES],
                      char message[NABLA_MESSAGE_SIZE]);
/* The same of a sharding as a whole, of an array of rank `rank`. */
bool nabla_sharding_check(const nabla_mesh *mesh,
                          const nabla_sharding *sharding, int64_t rank,
                          char message[NABLA_MESSAGE_SIZE]);

/* The number of devices that a list of axes divides among. */
int64_t nabla_axes_size(const nabla_mesh *mesh, const nabla_axis_list *axes);

/* The shape of each device's piece of an array of rank `sharding->rank`. False:
 * a dimension is not divided by its axes; which one is in `message`. */
bool nabla_sharding_piece(const nabla_mesh *mesh,
                          const nabla_sharding *sharding, MlirType type,
                          int64_t out[NABLA_MAX_RANK],
                          char message[NABLA_MESSAGE_SIZE]);

/* The name of the mesh of a nabla.shard_map, that of its first sharding; false
 * where it has none. */
bool nabla_shard_map_mesh(MlirOperation op, char out[NABLA_MESH_NAME]);

/* Reads the array of strings `axes` of a collective. */
bool nabla_axes_read(MlirAttribute list, nabla_axis_list *out);

/* Hook of the attribute: checks and makes canonical. */
bool nabla_sharding_hook(MlirContext context, MlirAttribute parameters,
                         MlirAttribute *out_parameters,
                         char message[NABLA_MESSAGE_SIZE]);

#endif
