/* What the parser of a safetensors header leaves in the handle. */
#ifndef NABLA_QUANT_FORMATS_SAFETENSORS_INTERNAL_H
#define NABLA_QUANT_FORMATS_SAFETENSORS_INTERNAL_H

#include "lib/base/file/file.h"
#include "lib/base/memory.h"
#include "nabla/safetensors.h"
#include "quant/formats/name_index.h"
#include "quant/formats/tensor_file.h"

#define NABLA_SAFETENSORS_METADATA_KEY "__metadata__"

/* All dimensions of all tensors: a dimension takes 2 bytes of the header and
 * 8 here, so that without a bound 100 MB would take 400. */
#define NABLA_SAFETENSORS_MAX_SHAPES (64u << 20)

/* All values of fields that the reader does not know. */
#define NABLA_SAFETENSORS_MAX_IGNORED (16u << 20)

/* One tensor, as small as can be: a header of 100 MB holds 2 million. The
 * header's limit keeps all three positions below 2^32. */
typedef struct nabla_safetensors_record {
  uint64_t begin, end; /* bytes in the data section                      */
  uint32_t name;       /* where it starts in the arena of names          */
  uint32_t shape;      /* likewise, counted in dimensions                */
  uint32_t at;         /* byte offset in the file where it is described  */
  uint16_t name_length;
  uint8_t dtype;
  uint8_t rank;
} nabla_safetensors_record;

typedef struct nabla_safetensors_pair { /* where they start in `texts` */
  uint32_t key, value;
  uint32_t key_length;
  uint32_t at; /* byte offset in the file */
} nabla_safetensors_pair;

typedef struct nabla_safetensors {
  nabla_tensor_file base;
  uint64_t data_start;  /* 8 + length of the header                         */
  nabla_buffer records; /* nabla_safetensors_record, by position of the data */
  nabla_buffer names;   /* each followed by a NUL                           */
  nabla_buffer shapes;  /* uint64_t                                         */
  nabla_buffer pairs;   /* nabla_safetensors_pair, in file order            */
  nabla_buffer texts;   /* keys and values, each followed by a NUL          */
  nabla_name_index index;
} nabla_safetensors;

static inline const nabla_safetensors_record *nabla_safetensors_records(
    const nabla_safetensors *file) {
  return (const void *)file->records.data;
}

static inline size_t nabla_safetensors_record_count(
    const nabla_safetensors *file) {
  return file->records.size / sizeof(nabla_safetensors_record);
}

static inline const char *nabla_safetensors_name_of(
    const nabla_safetensors *file, const nabla_safetensors_record *record) {
  return (const char *)file->names.data + record->name;
}

/* NULL for rank 0. */
static inline const uint64_t *nabla_safetensors_shape_of(
    const nabla_safetensors *file, const nabla_safetensors_record *record) {
  const uint64_t *shapes = (const void *)file->shapes.data;
  return record->rank > 0 ? shapes + record->shape : NULL;
}

/* Does not overflow: the parser has formed the same product. */
static inline uint64_t nabla_safetensors_elements_of(
    const nabla_safetensors *file, const nabla_safetensors_record *record) {
  const uint64_t *shape = nabla_safetensors_shape_of(file, record);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < record->rank; i++) elements *= shape[i];
  return elements;
}

/* nabla_safetensors_writer_begin with all that an output may be told. */
NABLA_MUST_USE nabla_status nabla_safetensors_writer_begin_as(
    nabla_safetensors_writer *writer, const char *path,
    const nabla_output_options *options, nabla_diag *diag);

/* Finds a declared tensor, after begin. @return its id, and its bytes;
 * SIZE_MAX if there is none */
size_t nabla_safetensors_writer_find(const nabla_safetensors_writer *writer,
                                     nabla_dtype dtype, const char *name,
                                     uint64_t *out_bytes);

/* Number of declared tensors; their ids are below it. */
size_t nabla_safetensors_writer_count(const nabla_safetensors_writer *writer);

/* Bytes that `shape` takes in `dtype`: *out_elements is the product, 1 for
 * rank 0. The product is taken in order and times the bits, as the reference
 * reader does, so that both refuse the same.
 * @return NABLA_OK; NABLA_TOO_LARGE on overflow; NABLA_CORRUPT when the bits
 *         are no whole number of bytes */
NABLA_MUST_USE nabla_status nabla_safetensors_size(
    nabla_dtype dtype, const uint64_t *shape, uint32_t rank,
    uint64_t *out_elements, uint64_t *out_bytes, nabla_diag *diag);

/* Reads the `length` bytes of JSON behind the first 8 of an open file into the
 * buffers: every rule that concerns one tensor or one pair alone. */
NABLA_MUST_USE nabla_status nabla_safetensors_parse(nabla_safetensors *file,
                                                    uint64_t length,
                                                    nabla_diag *diag);

#endif
