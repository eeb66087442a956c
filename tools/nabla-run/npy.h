/* Files of NumPy arrays, .npy: a bounded reader and an atomic writer. The
 * format:
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
#ifndef NABLA_RUN_NPY_H
#define NABLA_RUN_NPY_H

#include "nabla/environment.h"
#include "nabla/executable.h"
#include "nabla/status.h"

/* Bytes of a header that are read at most; NumPy writes 128. */
#define NPY_MAX_HEADER 65536u

/* Reads a whole array: versions 1.0, 2.0 and 3.0, little-endian, C order, of
 * bool, integers and floats. The file is hostile: sizes are checked before
 * memory is asked for, which is never more than the file is long.
 * @param environment  allocator and os; NULL for the defaults
 * @param out          its data is the caller's: npy_release
 * @return NABLA_OK
 *         NABLA_CORRUPT      not an npy file, or one that contradicts itself
 *         NABLA_UNSUPPORTED  big-endian, Fortran order, objects, structures
 *         NABLA_TOO_LARGE    header, rank above NABLA_ARRAY_MAX_RANK, sizes
 *         NABLA_NO_MEMORY, NABLA_IO, NABLA_INVALID_ARGUMENT (no regular file)
 */
NABLA_MUST_USE nabla_status npy_read(const char *path,
                                     const nabla_environment *environment,
                                     nabla_dense *out, nabla_diag *diag);

/* Frees what npy_read gave; data NULL is allowed. */
void npy_release(const nabla_environment *environment, nabla_dense *array);

/* Writes an array, byte for byte as numpy.save does; whole or not at all.
 * Devices, pipes and descriptors (tools/common/stream.h) are written to.
 * @param force  replace an existing file
 * @return NABLA_OK
 *         NABLA_UNSUPPORTED  a dtype without a name in NumPy: BF16, F8, ...
 *         NABLA_EXISTS, NABLA_IO, NABLA_NO_MEMORY, NABLA_INVALID_ARGUMENT,
 *         NABLA_TOO_LARGE */
NABLA_MUST_USE nabla_status npy_write(const char *path,
                                      const nabla_dense *array, int force,
                                      const nabla_environment *environment,
                                      nabla_diag *diag);

#endif
