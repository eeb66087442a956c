/* Programs that are divided between the devices of a mesh: docs/SHARDING.md.
 * Part of libnabla. */
#ifndef NABLA_SHARD_H
#define NABLA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/array.h"
#include "nabla/function.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a value of a program was divided: an operand of nabla.inspect_sharding.
 * Valid during a call. */
typedef struct nabla_sharding_report {
  size_t struct_size;   /* sizeof(nabla_sharding_report), set by the library  */
  const char *name;     /* "seen" of nabla.inspect_sharding @seen             */
  const char *sharding; /* "@m, [{"model"}, {}]"                              */
  const char *type;     /* of the whole: "tensor<8x16xf32>"                   */
  const char *piece;    /* of what each device has: "tensor<2x16xf32>"        */
  uint32_t devices;     /* of the mesh; 0: the program has none, and `sharding`
                           is empty                                           */
} nabla_sharding_report;

/* Adds a function that is called for each nabla.inspect_sharding @NAME of the
 * programs that are compiled from then on, by the thread that compiles.
 * Programs are not taken from the object cache while there is one: they would
 * be compiled without calls.
 * @param name   letters, digits, '_' and '.'; at most 63
 * @param report called with `self`, which may be NULL
 * @return NABLA_OK; NABLA_INVALID_ARGUMENT for a name that is not legal or
 * taken; NABLA_TOO_LARGE for more than 64. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_add_sharding_callback(
    const char *name,
    void (*report)(void *self, const nabla_sharding_report *report), void *self,
    nabla_diag *diag);

/* ---- meshes ---- */

/* A grid of devices with named axes. Device i has the coordinates of i in
 * row-major order: the last axis varies fastest. Immutable: all threads may use
 * it. */
typedef struct nabla_mesh nabla_mesh;

/* Makes a mesh from "data=2,model=4": names of letters, digits and '_', sizes
 * from 1 on; at most 8 axes, and NABLA_COMM_MAX_RANKS devices. Meshes of equal
 * text are one mesh to programs.
 * @param allocator NULL: malloc. It outlives the mesh, which nabla_mesh_destroy
 * frees.
 * @return NABLA_OK; NABLA_INVALID_ARGUMENT for a text that does not read, an
 * axis twice, a size below 1; NABLA_TOO_LARGE; NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status
nabla_mesh_create(const char *axes, const nabla_allocator *allocator,
                  nabla_mesh **out, nabla_diag *diag);
/* Frees it, when nobody uses it any more; arrays that were recorded with it
 * stay. NULL is allowed. */
NABLA_API void nabla_mesh_destroy(nabla_mesh *mesh);
/* Number of devices. */
NABLA_API uint32_t nabla_mesh_size(const nabla_mesh *mesh);

/* How an array is divided over a mesh: for each dimension the axes that divide
 * it, "x" or "x,y", of which the first makes the largest pieces, or NULL.
 * "x:(2)4" is the part of size 4 of x behind a part of size 2. A
 * value, which owns nothing: mesh and texts are those that it was made of. It
 * is checked where it is used. */
typedef struct nabla_partition {
  const nabla_mesh *mesh;
  uint32_t rank;
  const char *dims[NABLA_ARRAY_MAX_RANK];
} nabla_partition;

/* nabla_partition_spec(mesh, "data", NULL, "x,y"): the partition of an array of
 * three dimensions. It needs at least one; in C++ call the function below. */
#define nabla_partition_spec(mesh, ...)                                      \
  nabla_partition_of(mesh,                                                   \
                     sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), \
                     (const char *const[]){__VA_ARGS__})
/* The same of `rank` texts. `dims` NULL: no dimension is divided. */
NABLA_API nabla_partition nabla_partition_of(const nabla_mesh *mesh,
                                             size_t rank,
                                             const char *const *dims);

/* Writes "#nabla.sharding<@mesh.data.2, [{"data"}, {}]>", at most `size` bytes
 * with the NUL.
 * @return NABLA_OK; NABLA_INVALID_ARGUMENT for a partition that is not legal:
 * an axis that the mesh does not have, or twice; NABLA_TOO_LARGE: `size` */
NABLA_API NABLA_MUST_USE nabla_status nabla_partition_text(
    const nabla_partition *partition, char *out, size_t size, nabla_diag *diag);
/* Number of different pieces that an array is divided into; devices of the axes
 * that do not divide it have the same. Errors as nabla_partition_text. */
NABLA_API NABLA_MUST_USE nabla_status nabla_partition_shards(
    const nabla_partition *partition, uint32_t *out, nabla_diag *diag);
/* Writes the shape of a piece of an array of shape `global`; of the last piece
 * of a dimension that is not divided evenly, which is padded, less holds data.
 * Both have `partition->rank` sizes. Errors as nabla_partition_text, and
 * NABLA_INVALID_ARGUMENT for a size below 0. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_local_shape(const nabla_partition *partition, const int64_t *global,
                  int64_t *out, nabla_diag *diag);
/* Writes the shape of the array whose pieces have the shape `local`. Errors as
 * nabla_local_shape, and NABLA_TOO_LARGE for a size above 2^62. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_global_shape(const nabla_partition *partition, const int64_t *local,
                   int64_t *out, nabla_diag *diag);
/* Writes 1 if an array that is divided as `from` has to be exchanged to be
 * divided as `to`, else 0: all devices have their piece. Axes of size 1 divide
 * nothing. Errors as nabla_partition_text, and NABLA_INVALID_ARGUMENT for
 * partitions of different meshes or ranks. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_needs_reshard(const nabla_partition *from, const nabla_partition *to,
                    int *out, nabla_diag *diag);

/* ---- arrays on a mesh ----
 *
 * An array is one handle, of the shape of the whole. A program that has a
 * partition runs on as many threads as the mesh has devices: each computes its
 * pieces. Results stay divided where the program divides them evenly: a later
 * program whose argument is divided in the same way takes the pieces as they
 * lie, and nabla_array_read gathers them, once. Of an engine with a
 * communicator of processes (nabla_engine_options.comm) the devices are these:
 * every process runs the same C program, one thread of each realizes, calls and
 * reads the same in the same order, and has the pieces of its rank. All
 * partitions of a program are of one mesh. docs/SHARDING.md, "From C". */

/* Records that x is divided so where it is computed and used; what it is
 * computed from, and what is computed from it, is divided accordingly
 * (nabla.sharding_constraint). nabla_shard is the same, for arrays that enter a
 * program.
 * @return an array that equals x; NULL after a failure of the scope: a
 * partition that is not legal, or of another rank. A packed array that is not
 * divided between blocks is refused when the program is compiled */
NABLA_API nabla_array *nabla_sharding_constraint(nabla_array *x,
                                                 nabla_partition partition);
NABLA_API nabla_array *nabla_shard(nabla_array *x, nabla_partition partition);

/* Records that x is divided so from here on, however it was before: an exchange
 * that the program asks for (nabla.reshard). */
NABLA_API nabla_array *nabla_reshard(nabla_array *x, nabla_partition partition);

/* Realizes an array, and gives the piece that a device has of it; of an array
 * that is not divided, the whole.
 * @param rank  the device; of a mesh of processes that of this process
 *              (nabla_comm_rank)
 * @param out   dtype, shape and elements of the piece, which belong to the
 *              array, as those of nabla_array_read
 * @param out_start  NULL, or an index for each dimension of the array: where
 *                   the piece begins
 * @return as nabla_array_read
 *         NABLA_INVALID_ARGUMENT  also a device that this process has not */
NABLA_API NABLA_MUST_USE nabla_status nabla_read_local(nabla_array *array,
                                                       uint32_t rank,
                                                       nabla_dense *out,
                                                       int64_t *out_start,
                                                       nabla_diag *diag);

/* ---- programs of one device ---- */

/* Records a computation on pieces (nabla.shard_map). The callback is called
 * once, at the call, and is given the pieces of `operands`; it records what
 * each device does and gives pieces of `results`. Arrays from outside that it
 * uses are whole on every device. A result must be equal on devices that differ
 * only in axes that do not divide it, as collectives make it. A packed result
 * is the array that its pieces make; with packed scales it is refused.
 * @param in   a partition of each leaf of `operands`, of dimensions that divide
 *             evenly, `in_count` of them; NULL if there are none
 * @param out  the same of `results`; at least one. All are of one mesh.
 * @param results  its places get the arrays, whole; NULL after a failure of the
 *                 scope */
NABLA_API void nabla_shard_map(nabla_function_callback callback, void *self,
                               const nabla_tree *operands, size_t in_count,
                               const nabla_partition *in, nabla_tree *results,
                               size_t out_count, const nabla_partition *out);

/* How values of devices are joined. */
typedef enum nabla_shard_join {
  NABLA_SHARD_SUM = 0, /* of numbers; sums of truth values are refused */
  NABLA_SHARD_MAX = 1,
  NABLA_SHARD_PROD = 2,
  NABLA_SHARD_MIN = 3,
  NABLA_SHARD_ANY = 5, /* of truth values */
  NABLA_SHARD_ALL = 6,
} nabla_shard_join;

/* Collectives: what the devices that differ in `axes` alone exchange with each
 * other. They stand in a callback of nabla_shard_map, also in its nabla_cond,
 * nabla_while and nabla_scan, where all devices that exchange go the same way.
 * @param axes  "x" or "x,y", of which the last varies fastest; NULL: all axes
 * of the mesh
 * @return NULL after a failure of the scope */

/* The join of all values, on each; and their mean, of floats. */
NABLA_API nabla_array *nabla_all_reduce(nabla_array *x, nabla_shard_join join,
                                        const char *axes);
NABLA_API nabla_array *nabla_all_mean(nabla_array *x, const char *axes);
/* All pieces along `dim`, on each; and its inverse, one's own piece. */
NABLA_API nabla_array *nabla_all_gather(nabla_array *x, int64_t dim,
                                        const char *axes);
NABLA_API nabla_array *nabla_all_slice(nabla_array *x, int64_t dim,
                                       const char *axes);
/* One's own piece of the join. */
NABLA_API nabla_array *nabla_reduce_scatter(nabla_array *x,
                                            nabla_shard_join join, int64_t dim,
                                            const char *axes);
/* Piece j along `split` goes to device j, which joins them along `concat`. */
NABLA_API nabla_array *nabla_all_to_all(nabla_array *x, int64_t split,
                                        int64_t concat, const char *axes);
/* `pairs` has `count` sources, each followed by its target; devices that are no
 * target get zeros. The call copies it. */
NABLA_API nabla_array *nabla_permute(nabla_array *x, uint32_t count,
                                     const int64_t *pairs, const char *axes);
/* The value of device `from`, on each. */
NABLA_API nabla_array *nabla_broadcast(nabla_array *x, int64_t from,
                                       const char *axes);
/* The number of the device among those that differ in `axes`: i64, rank 0. */
NABLA_API nabla_array *nabla_axis_index(const char *axes);

/* ---- partitioners of custom calls ---- */

/* A custom call that a partitioner divides; valid during a call of it. Text of
 * a sharding is as in programs: "#nabla.sharding<@m, [{\"model\"}, {}]>". */
typedef struct nabla_partition_call {
  size_t struct_size; /* sizeof(nabla_partition_call), set by the library */
  void *self;         /* of the partitioner */
  const char *target;
  const char *mesh;       /* "nabla.mesh @m <[...]>", as programs have it    */
  const char *attributes; /* "{eps = 1.0e-05 : f64, ...}"                    */
  size_t operand_count, result_count; /* all are arrays                      */
  const char *const *operand_types;   /* of the whole: "tensor<8x16xf32>"    */
  const char *const *result_types;
  const char *const *operands; /* the sharding of each operand               */
  const char *const *results;
  void *answer; /* of the library */
} nabla_partition_call;

/* The parts of a partitioner's answer. */
typedef enum nabla_partition_part {
  NABLA_PARTITION_OPERAND, /* the sharding that operand `index` shall have    */
  NABLA_PARTITION_RESULT,  /* the sharding in which result `index` is         */
  NABLA_PARTITION_PROGRAM, /* the operations of each device, see `partition`  */
} nabla_partition_part;

/* Says a part of the answer; text is copied, and replaces what was said before.
 * Returns 1; 0: NULL, no such part or index, or no memory. Called by the thread
 * that runs the partitioner. */
NABLA_API int nabla_partition_set(const nabla_partition_call *call,
                                  nabla_partition_part part, size_t index,
                                  const char *text);

/* How custom calls of a target are divided between devices. Functions return 0
 * to refuse; members that are NULL are left out. */
typedef struct nabla_call_partitioner {
  size_t struct_size; /* sizeof(nabla_call_partitioner) */
  /* From the shardings of results those of operands, which propagation offers:
   * an operand that is divided in another way keeps its own. Refused: none. */
  int (*propagate)(const nabla_partition_call *call);
  /* From the shardings of operands those of results, in the same way. */
  int (*infer)(const nabla_partition_call *call);
  /* Says the shardings that operands and results have for the program of one
   * device (not said: those that they have), and the program: lines of MLIR in
   * which %x0, %x1, ... are the pieces of operands, of types !x0, !x1, ..., and
   * which end with nabla.yield of pieces of results, of types !y0, ...:
   *   %a = nabla.exp %x0 : !x0
   *   nabla.yield %a : !y0
   * It is checked as the region of nabla.shard_map; operands are brought to the
   * shardings that it wants. It may have collectives, and custom calls with an
   * attribute `axes`, whose handlers exchange values (nabla_call_exchange of
   * nabla/custom_call.h). No program: the call itself, of the pieces. NULL: the
   * same, where results are divided as `infer` says, and operands as
   * `propagate` says of these results; what they do not say, or refuse, is
   * whole. Refused: an error of the compilation. Regions of one device have no
   * padding: an array that would have some is whole, and a sharding that does
   * not divide an array evenly is refused. */
  int (*partition)(const nabla_partition_call *call);
  /* 1: a call that is not pure may be done by every device. 0: such a call is
   * an error where an axis of the mesh divides none of its arrays. */
  int may_replicate_side_effects;
  void *self;
} nabla_call_partitioner;

/* Adds a partitioner for the custom calls of a target, for all compilations of
 * the process that begin afterwards; `nabla.factors` of a call comes first.
 * Calls with operands of type index are done whole. Programs are not taken from
 * the object cache while there is a partitioner. The functions may be called on
 * several threads at once. `self` lives as long as the process.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no target, a taken one, no member that is set
 *         NABLA_TOO_LARGE         more than 256 targets
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_add_call_partitioner(
    const char *target, const nabla_call_partitioner *partitioner,
    nabla_diag *diag);

/* Says that the first `dims` dimensions of the results of a target's calls are
 * batches: each index is computed on its own, from the same index of all
 * operands of at least the first result's rank; operands of less are whole. The
 * handler is called with pieces. In place of a partitioner.
 * @return as nabla_add_call_partitioner; NABLA_INVALID_ARGUMENT also for no
 * dimension, or more than 8. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_call_is_batch_partitionable(
    const char *target, uint32_t dims, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
