/* An array of floats that are kept until all of them are known: in memory if
 * they are few, else in a file without a name beside the output. */
#ifndef NABLA_QUANT_WRITE_SPILL_H
#define NABLA_QUANT_WRITE_SPILL_H

#include "nabla/allocator.h"
#include "nabla/os.h"
#include "nabla/status.h"

/* Largest size in bytes that stays in memory. */
#define NABLA_SPILL_MEMORY ((uint64_t)8 << 20)

typedef struct nabla_spill nabla_spill;

/* Returns the bytes that `count` floats take on disk; 0 if they stay in memory.
 */
uint64_t nabla_spill_disk_bytes(uint64_t count);

/* Creates an array of `count` floats. A file is made beside `path` and loses
 * its name at once, so that nothing is left behind however the process ends.
 * @return NABLA_NO_MEMORY, NABLA_IO */
NABLA_MUST_USE nabla_status nabla_spill_create(const nabla_allocator *allocator,
                                               const nabla_os *os,
                                               const char *path, uint64_t count,
                                               nabla_spill **out,
                                               nabla_diag *diag);
void nabla_spill_destroy(nabla_spill *spill); /* NULL is allowed */

/* Thread-safe for ranges that do not overlap. */
NABLA_MUST_USE nabla_status nabla_spill_write(nabla_spill *spill,
                                              uint64_t first, const float *in,
                                              size_t count, nabla_diag *diag);
/* Reads floats that were written. Thread-safe. */
NABLA_MUST_USE nabla_status nabla_spill_read(const nabla_spill *spill,
                                             uint64_t first, float *out,
                                             size_t count, nabla_diag *diag);

#endif
