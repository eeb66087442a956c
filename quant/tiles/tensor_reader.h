/* Reads ranges of a logical tensor as f32, whether dense or packed. */
#ifndef NABLA_QUANT_TILES_TENSOR_READER_H
#define NABLA_QUANT_TILES_TENSOR_READER_H

#include "lib/base/memory.h"
#include "nabla/checkpoint.h"
#include "quant/tiles/tiling.h"

/* Values that are read and encoded at a time, where blocks and rows allow it:
 * they stay in the second cache, codes of a whole tile go to the file at once.
 */
#define NABLA_READ_VALUES ((uint64_t)1 << 16)

/* The components of one encoded tile. Blocks that begin anew after at least
 * NABLA_BLOCK_MIN values may be twice as many as those of that size. */
#define NABLA_ENCODED_SCALES(tile) ((tile) / NABLA_BLOCK_MIN * 2)
typedef struct nabla_encoded {
  uint8_t *codes;       /* tile bytes                           */
  float *scales;        /* NABLA_ENCODED_SCALES(tile), any type */
  uint8_t *zero_points; /* NABLA_ENCODED_SCALES(tile)           */
} nabla_encoded;

/* Buffers of one worker, for tiles of at most `tile` elements. */
typedef struct nabla_scratch {
  uint64_t tile;
  uint8_t *raw;    /* 8 * tile bytes: file bytes of any dtype, or codes     */
  float *scales;   /* tile + 1: rows of one element have one scale each     */
  uint8_t *stored; /* 2 * (tile + 1): narrow scales as they are in the file */
  uint8_t *zeros;  /* tile + 1: zero points                                 */
  float *values;   /* tile + NABLA_BLOCK_MAX: a range may begin inside a
                      block, which is decoded from its start                */
  nabla_encoded encoded[2]; /* one may wait to be written       */
  void *block; /* what was allocated                                    */
  size_t block_size;
} nabla_scratch;

NABLA_MUST_USE nabla_status
nabla_scratch_create(const nabla_allocator *allocator, uint64_t tile,
                     nabla_scratch *out, nabla_diag *diag);
void nabla_scratch_destroy(const nabla_allocator *allocator,
                           nabla_scratch *scratch);

/* One for each worker. */
NABLA_MUST_USE nabla_status
nabla_scratches_create(const nabla_allocator *allocator, uint32_t workers,
                       uint64_t tile, nabla_scratch **out, nabla_diag *diag);
void nabla_scratches_destroy(const nabla_allocator *allocator, uint32_t workers,
                             nabla_scratch *scratches);

/* A tensor ready to be read by value. */
typedef struct nabla_values {
  const nabla_checkpoint *checkpoint;
  nabla_tensor tensor;
  nabla_codec codec; /* packed only */
} nabla_values;

/* @return NABLA_UNSUPPORTED when the tensor is neither float nor decodable */
NABLA_MUST_USE nabla_status
nabla_values_open(const nabla_checkpoint *checkpoint, size_t tensor,
                  nabla_isa isa, nabla_values *out, nabla_diag *diag);

/* Reads the `count` values from `first` on, any range of at most a tile, into
 * scratch->values; packed ones leave their codes in raw, from the start of the
 * block that holds `first`, and the scales in scales.
 * @param out_scales  set to how many scales were read; may be NULL */
NABLA_MUST_USE nabla_status nabla_values_read(const nabla_values *values,
                                              uint64_t first, uint64_t count,
                                              nabla_scratch *scratch,
                                              uint64_t *out_scales,
                                              nabla_diag *diag);

/* Reads the `count` values of a dense tensor from `first` on as they are, into
 * scratch->values; what nabla_encode does not take (F64) becomes f32.
 * @param out  the dtype that they have there */
NABLA_MUST_USE nabla_status nabla_values_load(const nabla_values *values,
                                              uint64_t first, uint64_t count,
                                              nabla_scratch *scratch,
                                              nabla_dtype *out,
                                              nabla_diag *diag);

/* The codes of a packed range: where they are in scratch->raw, which value is
 * the first of them, and how many there are. */
typedef struct nabla_range {
  uint64_t start, length;
  uint64_t first_scale, scales;
} nabla_range;

/* The whole blocks, but of rows the piece itself, that [first, first + count)
 * lies in. */
nabla_range nabla_values_range(const nabla_format *format, uint64_t first,
                               uint64_t count);

/* Reads codes, scales and zero points of a range: codes into raw, scales
 * widened to f32 into scales. */
NABLA_MUST_USE nabla_status nabla_values_fetch(const nabla_values *values,
                                               const nabla_range *range,
                                               nabla_scratch *scratch,
                                               nabla_diag *diag);

/* Decodes what was fetched to `dtype` (F32, F16 or BF16) into `out`. */
void nabla_values_decode(const nabla_values *values, const nabla_range *range,
                         const nabla_scratch *scratch, nabla_dtype dtype,
                         void *out);

/* Turns what nabla_values_read has left in `scratch` into doubles, which take
 * the place of raw: exact for F64, whose values f32 cannot all hold. */
const double *nabla_values_widen(const nabla_values *values, uint64_t count,
                                 nabla_scratch *scratch);

/* Adds the tensor's name and file to a diag. Returns `status`. */
nabla_status nabla_values_blame(const nabla_values *values, nabla_status status,
                                nabla_diag *diag);

#endif
