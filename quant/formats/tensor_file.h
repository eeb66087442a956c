/* The interface that a format of files of tensors implements, and the table of
 * formats. */
#ifndef NABLA_QUANT_FORMATS_TENSOR_FILE_H
#define NABLA_QUANT_FORMATS_TENSOR_FILE_H

#include "lib/base/file/file.h"
#include "nabla/tensor_file.h"

/* Functions of one format. Indexes are below `count`; what a handle gives does
 * not change while it is open, and calls may come from several threads. */
typedef struct nabla_tensor_file_calls {
  size_t size; /* of the format's structure, whose first member is
                  nabla_tensor_file; it is zeroed before `open` */
  /* Reads and checks the description of all tensors, hostile as it may be:
   * limits, names that are UTF-8 and unlike each other, shapes times bits equal
   * to the bytes, data inside the file. `close` follows, after a failure too.
   */
  nabla_status (*open)(nabla_tensor_file *file, nabla_diag *diag);
  void (*close)(nabla_tensor_file *file);
  size_t (*count)(const nabla_tensor_file *file);
  nabla_entry (*at)(const nabla_tensor_file *file, size_t index);
  size_t (*find)(const nabla_tensor_file *file, const char *name,
                 size_t length);
  size_t (*metadata_count)(const nabla_tensor_file *file);
  void (*metadata)(const nabla_tensor_file *file, size_t index,
                   const char **out_key, const char **out_value);
  /* Reads a range inside a tensor. NULL: the bytes at its offset, which `open`
   * has seen to lie inside the file. */
  nabla_status (*read)(const nabla_tensor_file *file, size_t index, uint64_t at,
                       void *out, size_t size, nabla_diag *diag);
} nabla_tensor_file_calls;

/* A row of formats.def. */
typedef struct nabla_tensor_file_row {
  const char *name, *suffix, *magic;
  const nabla_tensor_file_calls *calls;
} nabla_tensor_file_row;

struct nabla_tensor_file {
  const nabla_tensor_file_row *row;
  const nabla_allocator *allocator;
  nabla_file *file;
};

/* The format whose suffix ends `name`, or NULL. */
const nabla_tensor_file_row *nabla_tensor_file_named(const char *name);

/* Suffixes of all formats, as a sentence lists them: ".a, .b". */
#define NABLA_TENSOR_FILE_SUFFIXES 128
void nabla_tensor_file_suffixes(char out[NABLA_TENSOR_FILE_SUFFIXES]);

#endif
