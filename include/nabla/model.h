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

/* How the bytes of the weights come into memory. */
typedef enum nabla_model_mode {
  /* The files are mapped, read-only. A file that shrinks while it is mapped
   * ends the process (SIGBUS) on access, as with any mapping. */
  NABLA_MODEL_MAP,
  /* The files are mapped, and a handler of SIGBUS is installed. If a page
   * cannot be read, because the file was truncated or its disk fails, zeros
   * take the place of that page and of all behind it. The process goes on, and
   * the model is spent: each run, plan or read that uses a weight of it returns
   * NABLA_IO from then on. So does the one that met the page, whose results
   * must not be used. All other faults go to the handler that was there before
   * the first model of this mode was opened, and that handler is put back after
   * the last of these models was closed. A handler that is installed meanwhile
   * must pass on faults that are not its own, and no thread that reads weights
   * may block SIGBUS. Code of the caller's that reads weights itself calls
   * nabla_model_check_unchanged afterwards. */
  NABLA_MODEL_GUARDED,
  /* Nothing is mapped: each component is read into memory once, when it is
   * first asked for, and what happens to the files later changes nothing. */
  NABLA_MODEL_COPY,
  NABLA_MODEL_MODES
} nabla_model_mode;

/* Options of nabla_model_open_with. Zero in all members but struct_size selects
 * the defaults. */
typedef struct nabla_model_options {
  size_t struct_size; /* sizeof(nabla_model_options) */
  nabla_model_mode mode;
} nabla_model_options;

/* Opens `path` as nabla_checkpoint_open does and maps its files, as
 * NABLA_MODEL_MAP says; nabla_model_check_unchanged tells between runs whether
 * they have changed. Files that cannot be mapped (a filesystem without it, or
 * an `os` of the caller's) are read instead, as NABLA_MODEL_COPY says.
 * @param environment  allocator and os are kept: what they point to must
 *                     outlive the model
 * @return as nabla_checkpoint_open; NABLA_CORRUPT when a file is replaced
 *         meanwhile, NABLA_UNSUPPORTED on a big-endian machine */
NABLA_API NABLA_MUST_USE nabla_status
nabla_model_open(const char *path, const nabla_environment *environment,
                 nabla_model **out, nabla_diag *diag);

/* The same in another mode.
 * @param options  may be NULL: the defaults
 * @return as nabla_model_open; NABLA_INVALID_ARGUMENT for a mode that there is
 *         not; with NABLA_MODEL_GUARDED also NABLA_IO when no handler can be
 *         installed, NABLA_TOO_LARGE beyond 1024 guarded files in a process */
NABLA_API NABLA_MUST_USE nabla_status nabla_model_open_with(
    const char *path, const nabla_model_options *options,
    const nabla_environment *environment, nabla_model **out, nabla_diag *diag);

/* Unmaps; executables that weights are bound to must be closed before. */
NABLA_API void nabla_model_close(nabla_model *model);

NABLA_API const nabla_checkpoint *nabla_model_borrow_checkpoint(
    const nabla_model *model);

/* Finds a weight by its name, which ends with NUL; `_n`: which has `length`
 * bytes. Thread-safe.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no such tensor: `next` names the nearest
 *         NABLA_UNSUPPORTED       packed in a way this build cannot decode
 *         NABLA_IO                the model is spent (NABLA_MODEL_GUARDED)
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

/* NABLA_CORRUPT when a file has changed since it was opened, NABLA_IO when the
 * model is spent. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_model_check_unchanged(const nabla_model *model, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
