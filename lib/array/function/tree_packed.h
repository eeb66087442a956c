/* Packed leaves of trees in files, in the Nabla layout of docs/FORMAT.md. */
#ifndef NABLA_ARRAY_TREE_PACKED_H
#define NABLA_ARRAY_TREE_PACKED_H

#include "lib/array/graph.h"
#include "nabla/safetensors.h"
#include "nabla/weight.h"

/* Declares the tensors of a packed leaf. `version` gets the version of the
 * layout that it needs, if that is newer.
 * @return also NABLA_UNSUPPORTED for what the layout does not hold */
NABLA_MUST_USE nabla_status nabla_tree_declare_packed(
    nabla_safetensors_writer *writer, const char *name,
    const nabla_weight_desc *weight, uint32_t *version, nabla_diag *diag);

/* Adds the labels of a file of this version. */
NABLA_MUST_USE nabla_status nabla_tree_label_packed(
    nabla_safetensors_writer *writer, uint32_t version, nabla_diag *diag);

/* Writes what was declared from the id `id` on, which becomes the next. */
NABLA_MUST_USE nabla_status nabla_tree_write_packed(
    nabla_safetensors_writer *writer, const char *name,
    const nabla_weight_desc *weight, size_t *id, nabla_diag *diag);

/* A packed leaf of `scope` with a copy of the components of a weight. */
NABLA_MUST_USE nabla_status
nabla_tree_copy_weight(nabla_scope *scope, const nabla_weight_desc *weight,
                       nabla_array **out, nabla_diag *diag);

#endif
