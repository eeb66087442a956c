/* Trees of arrays: parameters of a model, arguments and results of functions.
 * Part of libnabla.
 *
 *   typedef struct layer { nabla_array *w, *b; } layer;
 *   typedef struct mlp { layer layers[3]; nabla_array *scale; } mlp;
 *   static const nabla_tree_member layer_members[] = {
 *       NABLA_TREE_MEMBER(layer, w), NABLA_TREE_MEMBER(layer, b)};
 *   static const nabla_tree_layout layer_layout = NABLA_TREE_LAYOUT(layer);
 *   static const nabla_tree_member mlp_members[] = {
 *       NABLA_TREE_MEMBER_STRUCT(mlp, layers, layer_layout),
 *       NABLA_TREE_MEMBER(mlp, scale)};
 *   static const nabla_tree_layout mlp_layout = NABLA_TREE_LAYOUT(mlp);
 *   ...
 *   nabla_tree tree = nabla_tree_of_struct(&mlp_layout, &model);
 *   if (nabla_tree_write(&tree, "mlp.safetensors", 0, NULL, &diag)) ...
 *
 * A tree describes places in memory of the user where arrays are; it owns
 * neither. Leaves are the arrays, in the order of items and members. The name
 * of a leaf has the names of fields and members and the numbers of items on
 * the way to it, with dots: "layers.2.w". Trees have the same structure if
 * their kinds, counts, names and static values are the same.
 *
 * All functions may be called from any thread; a tree that is changed by one
 * thread is not used by others meanwhile. */
#ifndef NABLA_TREE_H
#define NABLA_TREE_H

#include <stddef.h>

#include "nabla/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits, refused with NABLA_TOO_LARGE: nesting, and bytes of a leaf's name. */
#define NABLA_TREE_MAX_DEPTH 32
#define NABLA_TREE_MAX_NAME  255

/* ---- structs of the user ---- */

typedef struct nabla_tree_layout nabla_tree_layout;

typedef enum nabla_tree_member_kind {
  NABLA_TREE_MEMBER_ARRAY,    /* nabla_array *x, or nabla_array *x[N]       */
  NABLA_TREE_MEMBER_OPTIONAL, /* the same; where NULL there is no leaf      */
  NABLA_TREE_MEMBER_INLINE,   /* S x, or S x[N], a struct with a layout     */
  NABLA_TREE_MEMBER_POINTER,  /* S *x, whose count another member has       */
  NABLA_TREE_MEMBER_VALUE,    /* a static value: its bytes are structure    */
} nabla_tree_member_kind;

/* A member of a struct. Members that are no row are ignored. A C array of
 * more than one element is a list: "x.0", "x.1"; a POINTER is always one. */
typedef struct nabla_tree_member {
  const char *name;
  nabla_tree_member_kind kind;
  size_t offset, size;
  size_t count_offset;             /* POINTER: of a size_t                  */
  const nabla_tree_layout *layout; /* INLINE, POINTER                       */
} nabla_tree_member;

struct nabla_tree_layout {
  size_t size; /* of the struct */
  size_t member_count;
  const nabla_tree_member *members;
};

#define NABLA_TREE_MEMBER_(type, member, kind, count, layout) \
  {#member,                                                   \
   kind,                                                      \
   offsetof(type, member),                                    \
   sizeof(__typeof__(((type *)NULL)->member)),                \
   count,                                                     \
   layout}
#define NABLA_TREE_MEMBER(type, member) \
  NABLA_TREE_MEMBER_(type, member, NABLA_TREE_MEMBER_ARRAY, 0, NULL)
#define NABLA_TREE_MEMBER_MAYBE(type, member) \
  NABLA_TREE_MEMBER_(type, member, NABLA_TREE_MEMBER_OPTIONAL, 0, NULL)
#define NABLA_TREE_MEMBER_STRUCT(type, member, layout) \
  NABLA_TREE_MEMBER_(type, member, NABLA_TREE_MEMBER_INLINE, 0, &(layout))
#define NABLA_TREE_MEMBER_LIST(type, member, count, layout)   \
  NABLA_TREE_MEMBER_(type, member, NABLA_TREE_MEMBER_POINTER, \
                     offsetof(type, count), &(layout))
#define NABLA_TREE_MEMBER_STATIC(type, member) \
  NABLA_TREE_MEMBER_(type, member, NABLA_TREE_MEMBER_VALUE, 0, NULL)
/* The layout of `type`, from the array `type`_members. */
#define NABLA_TREE_LAYOUT(type)                                    \
  {sizeof(type), sizeof type##_members / sizeof type##_members[0], \
   type##_members}

/* ---- trees ---- */

typedef enum nabla_tree_kind {
  NABLA_TREE_NONE,   /* no leaves                                         */
  NABLA_TREE_ARRAY,  /* a leaf: `array`                                   */
  NABLA_TREE_LIST,   /* `count` trees, `items`                            */
  NABLA_TREE_FIELDS, /* the same, with `names`                            */
  NABLA_TREE_STRUCT, /* a struct of the user at `data`, with `layout`     */
  NABLA_TREE_STATIC, /* a value of `count` bytes at `data`: no leaf, but
                        part of the structure                             */
  NABLA_TREE_OPEN,   /* the place of a tree that is not known yet: the one at
                        `items`, or NULL. Its structure is not a part of that
                        of the trees around it; no argument has one       */
} nabla_tree_kind;

/* A tree: one of the kinds above, whose members are set. Zero-initialised is
 * NONE. */
typedef struct nabla_tree {
  nabla_tree_kind kind;
  nabla_array *array;
  size_t count;
  struct nabla_tree *items;
  const char *const *names;
  const nabla_tree_layout *layout;
  void *data;
} nabla_tree;

/* Return a tree of each kind. Pointers are borrowed. */
NABLA_API nabla_tree nabla_tree_of_array(nabla_array *array);
NABLA_API nabla_tree nabla_tree_of_list(size_t count, nabla_tree *items);
NABLA_API nabla_tree nabla_tree_of_fields(size_t count,
                                          const char *const *names,
                                          nabla_tree *items);
NABLA_API nabla_tree nabla_tree_of_struct(const nabla_tree_layout *layout,
                                          void *data);
NABLA_API nabla_tree nabla_tree_of_static(size_t size, void *value);
/* Results whose structure the callback of a function gives: it sets `items` of
 * its place to a tree that lives until the results were read, which becomes the
 * tree at the caller's place too if that has none. The structure is then no
 * part of the signature. A later call, for which the callback is not run, has a
 * tree of the same structure at its place. After a failure, and
 * nabla_function_session, arrays at the places of such a tree are not used. */
NABLA_API nabla_tree nabla_tree_of_open(nabla_tree *item);

/* Calls `visit` for the place of each leaf, in order, until it returns another
 * status than NABLA_OK, which is returned. It may write the place. `name` lives
 * for the call; that of a tree that is one leaf is "".
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a tree that is not as described above: a NULL
 *                                 where there is a count, an unknown kind
 *         NABLA_TOO_LARGE         a limit of this header
 *         what `visit` returned */
typedef nabla_status (*nabla_tree_visitor)(void *self, const char *name,
                                           nabla_array **place,
                                           nabla_diag *diag);
NABLA_API NABLA_MUST_USE nabla_status nabla_tree_visit(const nabla_tree *tree,
                                                       nabla_tree_visitor visit,
                                                       void *self,
                                                       nabla_diag *diag);

/* Writes the leaves to `out`, which has space for `capacity`; `out` may be NULL
 * if `capacity` is 0. `out_count` gets their number also where they are more.
 * @return as nabla_tree_visit; NABLA_TOO_LARGE  more leaves than `capacity`,
 *         unless that is 0 */
NABLA_API NABLA_MUST_USE nabla_status nabla_tree_flatten(const nabla_tree *tree,
                                                         size_t capacity,
                                                         nabla_array **out,
                                                         size_t *out_count,
                                                         nabla_diag *diag);

/* Puts `count` arrays at the places of the leaves.
 * @return as nabla_tree_visit; NABLA_INVALID_ARGUMENT also for another number
 *         of leaves: then nothing is written */
NABLA_API NABLA_MUST_USE nabla_status
nabla_tree_unflatten(const nabla_tree *tree, size_t count,
                     nabla_array *const *arrays, nabla_diag *diag);

/* Puts what `change` returns for each leaf of `tree` at the same place of
 * `out`, which has the same structure and may be `tree`.
 * @return as nabla_tree_same */
NABLA_API NABLA_MUST_USE nabla_status nabla_tree_map(
    const nabla_tree *tree, nabla_array *(*change)(void *self, nabla_array *),
    void *self, const nabla_tree *out, nabla_diag *diag);

/* Compares the structures of two trees.
 * @return as nabla_tree_visit; NABLA_INVALID_ARGUMENT if they differ: the
 *         message names the first leaf at which they do
 *         NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status nabla_tree_same(const nabla_tree *a,
                                                      const nabla_tree *b,
                                                      nabla_diag *diag);

/* Writes the leaves to `out` as nabla_tree_flatten, but the components of a
 * packed leaf in its place: one layer is opened, and components may be packed
 * in turn (nabla_implicit_depth). Components are recorded in the innermost
 * scope of the thread.
 * @return as nabla_tree_flatten; NABLA_INVALID_ARGUMENT  a leaf that is NULL,
 * or no scope; and the status of recording */
NABLA_API NABLA_MUST_USE nabla_status
nabla_tree_open_layer(const nabla_tree *tree, size_t capacity,
                      nabla_array **out, size_t *out_count, nabla_diag *diag);
/* Puts arrays at the places of `out`, which has the structure of `like` and may
 * be `like`: what nabla_tree_open_layer gave of `like`, or others of the same
 * dtypes and shapes, packed again as its leaves are.
 * @return as nabla_tree_same; NABLA_INVALID_ARGUMENT  another number of arrays,
 * a NULL, or components that do not fit. Then nothing is written */
NABLA_API NABLA_MUST_USE nabla_status nabla_tree_close_layer(
    const nabla_tree *like, size_t count, nabla_array *const *arrays,
    const nabla_tree *out, nabla_diag *diag);

/* ---- files ---- */

/* Writes the leaves to a safetensors file, by their names; a packed leaf in the
 * Nabla layout of docs/FORMAT.md. Pending leaves are realized, in one run. The
 * file stands under its name when it is complete.
 * @param force  replace an existing file
 * @return as nabla_tree_visit, nabla_realize and
 *         nabla_safetensors_writer_begin; NABLA_INVALID_ARGUMENT also for a
 *         leaf that is NULL, a name that is empty or that two leaves have;
 *         NABLA_UNSUPPORTED  a packed leaf that the layout does not hold, such
 *                            as GGUF blocks */
NABLA_API NABLA_MUST_USE nabla_status
nabla_tree_write(const nabla_tree *tree, const char *path, int force,
                 const nabla_environment *environment, nabla_diag *diag);

/* Reads the tensors of a file, or of a folder (nabla_model_open), into new
 * arrays of `scope`, and puts them at the places of the leaves of these names;
 * packed ones stay packed. A place that has an array gets one of the same dtype
 * and shape only, and packed if that is. On failure no place is written.
 * @return as nabla_tree_visit and nabla_model_find;
 *         NABLA_INVALID_ARGUMENT  a leaf without a tensor, a tensor without a
 *                                 leaf, another dtype or shape: the message
 *                                 names leaf and file
 *         NABLA_UNSUPPORTED       a dtype that arrays do not have */
NABLA_API NABLA_MUST_USE nabla_status nabla_tree_read(
    nabla_scope *scope, const char *path, const nabla_environment *environment,
    const nabla_tree *tree, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
