/* A checkpoint mapped into memory, its weights ready to be bound to compiled
 * code: nothing is read before it is used, nothing is copied unless a foreign
 * file placed it badly. Part of libnabla-runtime. */
#ifndef NABLA_MODEL_H
#define NABLA_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/checkpoint.h"
#include "nabla/environment.h"
#include "nabla/status.h"
#include "nabla/weight.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nabla_model nabla_model;

/* A weight of a model. Pointers live as long as the model. */
typedef struct nabla_weight {
  nabla_tensor tensor;    /* in the files: nabla/checkpoint.h             */
  nabla_weight_desc desc; /* in memory                                    */
  uint64_t copied_bytes;  /* not 0: of components that lay unaligned in the file
                             and were copied, once                           */
} nabla_weight;

/* Opens `path` as nabla_checkpoint_open does and maps its files, read-only.
 * A file that shrinks while it is mapped ends the process (SIGBUS) on access,
 * as with any mapping; nabla_model_check_unchanged tells of it between runs.
 * Files that cannot be mapped (a filesystem without it, or an `os` of the
 * caller's) are read instead: each component once, when it is first asked for.
 * @param environment  allocator and os are kept: what they point to must
 *                     outlive the model
 * @return as nabla_checkpoint_open; NABLA_CORRUPT when a file is replaced
 *         meanwhile, NABLA_UNSUPPORTED on a big-endian machine */
NABLA_API NABLA_MUST_USE nabla_status
nabla_model_open(const char *path, const nabla_environment *environment,
                 nabla_model **out, nabla_diag *diag);

/* Unmaps; executables that weights are bound to must be closed before. */
NABLA_API void nabla_model_close(nabla_model *model);

NABLA_API const nabla_checkpoint *nabla_model_borrow_checkpoint(
    const nabla_model *model);

/* Finds a weight by its name, which ends with NUL; `_n`: which has `length`
 * bytes. Thread-safe.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no such tensor: `next` names the nearest
 *         NABLA_UNSUPPORTED       packed in a way this build cannot decode
 *         NABLA_NO_MEMORY         a component had to be copied */
NABLA_API NABLA_MUST_USE nabla_status nabla_model_find(nabla_model *model,
                                                       const char *name,
                                                       nabla_weight *out,
                                                       nabla_diag *diag);
NABLA_API NABLA_MUST_USE nabla_status nabla_model_find_n(nabla_model *model,
                                                         const char *name,
                                                         size_t length,
                                                         nabla_weight *out,
                                                         nabla_diag *diag);

/* NABLA_CORRUPT when a file has changed since it was opened. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_model_check_unchanged(const nabla_model *model, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
