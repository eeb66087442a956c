/* Inside quant/: checking a folder's config.json. */
#ifndef NABLA_QUANT_MEASURE_VERIFY_CONFIG_H
#define NABLA_QUANT_MEASURE_VERIFY_CONFIG_H

#include "nabla/checkpoint.h"

/* Checks that the quantization_config of the folder that `checkpoint` was
 * opened from agrees with the tensors; a file, an index, or a folder without
 * config.json has nothing to check.
 * @param out_reader  of NABLA_VERIFY_READER bytes: how transformers reads the
 *                    folder; untouched where there is none
 * @return NABLA_CORRUPT and NABLA_TOO_LARGE about config.json, NABLA_IO,
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_verify_config(
    const nabla_checkpoint *checkpoint, const nabla_environment *environment,
    char *out_reader, nabla_diag *diag);

#endif
