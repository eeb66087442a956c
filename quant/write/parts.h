/* Inside quant/: an output that several processes make in parts. Part i of n
 * has the components of some of the tensors, in a safetensors file
 * "OUT.part-i-of-n"; its metadata has a hash of the run, and i. */
#ifndef NABLA_QUANT_WRITE_PARTS_H
#define NABLA_QUANT_WRITE_PARTS_H

#include "quant/write/write.h"

/* The key in the metadata of a part. */
#define NABLA_LABEL_PART "nabla.part"

/* The next step after an error of one part. */
#define NABLA_PART_AGAIN "remove it and make this part again"

/* Says what task->part_first and _end are: a share of the source's bytes. */
void nabla_part_choose(nabla_write_task *task, uint32_t part, uint32_t parts);

/* 1 if the entry that has `bytes` behind the first `before` bytes of the source
 * is of the task's part; always of a task without parts. */
int nabla_part_has(const nabla_write_task *task, uint64_t before,
                   uint64_t bytes);

/* Writes the hash of what all parts of a run have in common: the plan, and of
 * the sources the descriptions, the sizes, and the first and last bytes of each
 * tensor. Fails as nabla_tensor_file_read. */
#define NABLA_PART_HASH_TEXT 33
NABLA_MUST_USE nabla_status nabla_part_hash(const nabla_plan *plan,
                                            uint32_t parts,
                                            char out[NABLA_PART_HASH_TEXT],
                                            nabla_diag *diag);

/* nabla_write_checkpoint of a part: publishes it unless it is there, and joins
 * all parts if all are there. out->missing_parts says how many are not. */
NABLA_MUST_USE nabla_status nabla_part_write(const nabla_write_task *task,
                                             const nabla_write_options *where,
                                             nabla_write_summary *out,
                                             nabla_diag *diag);

/* Returns `code` for the part at `path`. */
NABLA_MUST_USE nabla_status nabla_part_fail(const char *path, nabla_status code,
                                            const char *what, nabla_diag *diag);

/* Copies the tensors of task->joined to the writer, which has begun.
 * @return NABLA_CORRUPT unless the parts have each declared tensor once, and no
 *         other */
NABLA_MUST_USE nabla_status nabla_part_copy(const nabla_file_job *job,
                                            nabla_diag *diag);

/* *out: 1 if `output` has each tensor of `part`, byte for byte. */
NABLA_MUST_USE nabla_status nabla_part_is_in(const nabla_write_task *task,
                                             const nabla_tensor_file *part,
                                             const nabla_tensor_file *output,
                                             int *out, nabla_diag *diag);

#endif
