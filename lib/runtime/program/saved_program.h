/* The record at the end of a saved program: what its code needs, and a hash of
 * the whole file. A saved program is a shared library in front of
 *   text    target triple, NUL, features that the code uses ("avx2,fma"), NUL
 *   u64     bytes in front of the text
 *   u32     bytes of the text
 *   u32     0
 *   u32     NABLA_SERVICES_VERSION
 *   u32     NABLA_SAVED_VERSION
 *   8 bytes NABLA_SAVED_MAGIC
 *   16      XXH3-128, in its canonical form, of all before it
 * with integers in little-endian order. Every version ends as the last three
 * lines say. The hash guards against damage, not malice. */
#ifndef NABLA_RUNTIME_PROGRAM_SAVED_PROGRAM_H
#define NABLA_RUNTIME_PROGRAM_SAVED_PROGRAM_H

#include "lib/base/file/file.h"
#include "lib/base/memory.h"
#include "lib/base/x86_features.h"

#define NABLA_SAVED_MAGIC      "NablaRun"
#define NABLA_SAVED_MAGIC_SIZE 8
#define NABLA_SAVED_VERSION    1u
#define NABLA_SAVED_HASH_SIZE  16
#define NABLA_SAVED_FIXED      48         /* bytes behind the text */
#define NABLA_SAVED_TEXT_MAX   8192u      /* bytes of the text     */
#define NABLA_SAVED_MAX        (1u << 30) /* bytes of a file       */

/* Bytes that nabla_saved_parse wants of a file's end, when it has so many. */
#define NABLA_SAVED_TAIL (NABLA_SAVED_TEXT_MAX + NABLA_SAVED_FIXED)

/* What a record says. Texts point into the tail that was parsed. */
typedef struct nabla_saved_record {
  const char *triple, *features;
  uint64_t code_size;
  uint32_t abi;
} nabla_saved_record;

/* Reads the record in the last `tail_size` bytes of a file of `file_size`.
 * @return NABLA_CORRUPT      no record, or sizes that do not fit the file
 *         NABLA_UNSUPPORTED  another version of the record */
NABLA_MUST_USE nabla_status nabla_saved_parse(const uint8_t *tail,
                                              size_t tail_size,
                                              uint64_t file_size,
                                              nabla_saved_record *out,
                                              nabla_diag *diag);

/* NABLA_UNSUPPORTED when this process cannot run such code: another version of
 * the services, another kind of machine, features that `cpu` lacks. */
NABLA_MUST_USE nabla_status nabla_saved_check(const nabla_saved_record *record,
                                              const nabla_x86_features *cpu,
                                              nabla_diag *diag);

/* Appends the record to `file`, which holds a shared library for `triple` that
 * uses `features`.
 * @return NABLA_TOO_LARGE, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status
nabla_saved_append(nabla_buffer *file, const char *triple,
                   const nabla_x86_features *features, nabla_diag *diag);

/* Checks all of that on an open file, its hash first.
 * @return as the above, and NABLA_CORRUPT (damaged), NABLA_TOO_LARGE, NABLA_IO,
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_saved_verify(const nabla_file *file,
                                               const nabla_x86_features *cpu,
                                               nabla_diag *diag);

#endif
