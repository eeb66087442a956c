/* Guarded mappings: mapped files of which a part that cannot be read, because
 * the file was truncated or its disk failed, becomes zeros instead of ending
 * the process by SIGBUS. The model that such a file is of is spent from then
 * on; what reads weights asks for that afterwards.
 *
 * The table and the handler are the process's, as handlers of signals are. All
 * functions are thread-safe. */
#ifndef NABLA_RUNTIME_PROGRAM_GUARDED_H
#define NABLA_RUNTIME_PROGRAM_GUARDED_H

#include "lib/runtime/program/mapping.h"
#include "nabla/weight.h"

#define NABLA_GUARDED_MAX 1024 /* files at a time, in a process */

/* Guards a mapping of `owner`, a model; `path` lives as long. The first one
 * installs the handler of SIGBUS, which passes all other faults to the handler
 * that was there; so does a later one that finds no handler of SIGBUS at all.
 * @return NABLA_TOO_LARGE  NABLA_GUARDED_MAX are guarded
 *         NABLA_IO         no handler can be installed */
NABLA_MUST_USE nabla_status nabla_guarded_add(const void *owner,
                                              const nabla_mapping *mapping,
                                              const char *path,
                                              nabla_diag *diag);

/* Ends the guard of all mappings of `owner`, before they are unmapped. After
 * the last one the handler that was there is back, unless another was installed
 * over this one. */
void nabla_guarded_remove(const void *owner);

/* NABLA_IO when `owner` is spent. */
NABLA_MUST_USE nabla_status nabla_guarded_check_owner(const void *owner,
                                                      nabla_diag *diag);

/* 1 when any owner is spent: where it is 0, which is a load, there is nothing
 * to check. */
int nabla_guarded_is_any_spent(void);

/* NABLA_IO when `data` lies in a mapping of an owner that is spent. */
NABLA_MUST_USE nabla_status nabla_guarded_check(const void *data,
                                                nabla_diag *diag);

/* The same of each component of a weight. */
NABLA_MUST_USE nabla_status
nabla_guarded_check_weight(const nabla_weight_desc *weight, nabla_diag *diag);

#endif
