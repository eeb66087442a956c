/* Files of other formats that users give for safetensors: by their first bytes
 * or their name, with how to convert them (foreign.def). */
#ifndef NABLA_QUANT_FORMATS_FOREIGN_H
#define NABLA_QUANT_FORMATS_FOREIGN_H

#include "lib/base/file/file.h"
#include "nabla/status.h"

typedef struct nabla_foreign {
  const char *magic, *name, *what, *next;
} nabla_foreign;

/* By its first bytes; NULL when they are of no other format. */
const nabla_foreign *nabla_foreign_find(const uint8_t *head, size_t size);
/* By a name in a folder; NULL for others. */
const nabla_foreign *nabla_foreign_named(const char *name);
/* Sets what to do now about the file at `folder` (ends in a slash, or "") and
 * `name`. */
void nabla_foreign_set_next(const nabla_foreign *foreign, const char *folder,
                            const char *name, nabla_diag *diag);

/* Bytes of a file that nabla_foreign_find looks at. */
#define NABLA_FOREIGN_HEAD 96

/* Fails with what `file` is when it begins as a file of another format. */
NABLA_MUST_USE nabla_status nabla_foreign_refuse(const nabla_file *file,
                                                 nabla_diag *diag);

#endif
