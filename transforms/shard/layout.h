/* Layouts: how a value of a program is divided, in atoms of the mesh. */
#ifndef NABLA_TRANSFORMS_SHARD_LAYOUT_H
#define NABLA_TRANSFORMS_SHARD_LAYOUT_H

#include "dialect/encoding/encoding.h"
#include "transforms/ir/ir.h"
#include "transforms/shard/atoms.h"

/* Attributes of arguments and results of functions, and of operations: one
 * sharding, or a list with one for each result. */
#define NABLA_SHARDING  "nabla.sharding"
#define NABLA_SHARDINGS "nabla.shardings"
/* Of a partitioned function: the symbol of its mesh. */
#define NABLA_PARTITIONED "nabla.partitioned"

typedef struct nabla_grid {
  MlirOperation op; /* the nabla.mesh */
  nabla_mesh mesh;
  nabla_atoms atoms;
} nabla_grid;

typedef struct nabla_division {
  MlirType type; /* of the whole */
  intptr_t rank;
  uint32_t
      closed; /* dimensions that propagation leaves alone, a bit for each */
  nabla_atom_list dims[NABLA_MAX_RANK];
} nabla_division;

/* Finds the mesh of a module. `out_count` is the number of meshes; more than
 * one, and what this version cannot divide over, is reported. */
bool nabla_shard_begin(MlirOperation module, nabla_grid *out,
                       size_t *out_count);

/* Whether a type is an array that can be divided at all. */
bool nabla_layout_takes(MlirType type);

/* The layout in which nothing is divided. */
nabla_division nabla_layout_whole(MlirType type);
bool nabla_layout_is_whole(const nabla_division *layout);
bool nabla_layout_equal(const nabla_division *a, const nabla_division *b);
bool nabla_atoms_equal(const nabla_atom_list *a, const nabla_atom_list *b);

/* The type that an array has where it is divided, as a whole: packed scales,
 * whose groups are no pieces, are decoded to f32. */
MlirType nabla_layout_stored(MlirType type);
/* Whether an array is a lora: a packed base, and two small factors. */
bool nabla_layout_is_lora(MlirType type);

/* Whether the type in pieces is another one: the array has packed scales. */
bool nabla_layout_packs_scales(MlirType type);

/* Whether an operation gives the same result whether the scales of its operands
 * are packed or decoded to f32. */
bool nabla_layout_takes_decoded(MlirOperation op);

/* Whether a value may be divided although that decodes its scales: it is an
 * argument, or one in another division, and all operations that use it take it
 * decoded. True of values without packed scales. */
bool nabla_layout_may_decode(MlirValue value);

/* The division of the storage of a packed array: of a view that is a
 * permutation of all of its storage, that in which the same elements are
 * pieces; of other arrays `layout`. False: it is another view. */
bool nabla_layout_storage(const nabla_division *layout, nabla_division *out);

/* The type of each device's piece. A dense dimension whose size is not divided
 * evenly is padded behind its end: all pieces have one size, and the elements
 * of the padding any values. A `?` stays one; the runtime checks that it is
 * divided evenly. False: the array cannot be divided so; why is in `message`.
 */
bool nabla_layout_local(const nabla_grid *shard, const nabla_division *layout,
                        MlirType *out, char message[NABLA_MESSAGE_SIZE]);

/* A size with its padding. */
int64_t nabla_layout_padded(const nabla_grid *shard, int64_t size,
                            const nabla_atom_list *atoms);

/* Whether all pieces are full. */
bool nabla_layout_is_even(const nabla_grid *shard,
                          const nabla_division *layout);

/* Atoms of `layout` that are used, a bit for each. */
uint64_t nabla_layout_used(const nabla_division *layout);

/* Gives `out`, which is whole, the axes of a sharding of its rank; and makes
 * one in which all dimensions are closed. */
bool nabla_layout_read(const nabla_grid *shard, const nabla_sharding *sharding,
                       nabla_division *out);
MlirAttribute nabla_layout_attribute(const nabla_grid *shard,
                                     MlirContext context,
                                     const nabla_division *layout);

/* The layout that an argument of a function has by its attribute. */
nabla_division nabla_layout_of_argument(const nabla_grid *shard,
                                        MlirOperation function, intptr_t index,
                                        MlirType type);

/* The same of an argument or result: `list` is NABLA_ARGUMENTS or
 * NABLA_RESULTS. */
nabla_division nabla_layout_of_port(const nabla_grid *shard,
                                    MlirOperation function, const char *list,
                                    intptr_t index, MlirType type);

/* ---- layouts of values ---- */

typedef struct nabla_layout_map {
  size_t count, capacity;
  const void **keys;
  nabla_division *layouts;
  bool failed; /* out of memory */
} nabla_layout_map;

/* The layout of a value, which is made whole where it is new. Valid until the
 * next call; NULL where there is no memory. */
nabla_division *nabla_layout_at(nabla_layout_map *map, MlirValue value);
/* A copy of it, whole where there is no memory. */
nabla_division nabla_layout_of(nabla_layout_map *map, MlirValue value);
void nabla_layout_map_deinit(nabla_layout_map *map);

/* "[{"model"}, {}]" for messages. */
typedef struct nabla_layout_text {
  char data[160];
} nabla_layout_text;
nabla_layout_text nabla_layout_format(const nabla_grid *shard,
                                      const nabla_division *layout);

#endif
