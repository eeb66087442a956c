/* A fresh folder for one test, and files in it. */
#ifndef NABLA_TESTS_TEMP_FOLDER_H
#define NABLA_TESTS_TEMP_FOLDER_H

#include <stddef.h>
#include <stdint.h>

typedef struct temp_folder {
  char path[200];
} temp_folder;

/* Makes an empty folder under TMPDIR; the test fails when it cannot. */
void temp_folder_create(temp_folder *folder);

/* Removes the folder with the files in it. */
void temp_folder_destroy(const temp_folder *folder);

/* Writes the path of `name` in the folder to `out`, of at least 256 bytes. */
void temp_folder_path(const temp_folder *folder, const char *name, char *out);

/* How many names are in the folder. */
size_t temp_folder_count(const temp_folder *folder);

/* Writes a file of `size` bytes; replaces what is there. */
void temp_folder_write(const temp_folder *folder, const char *name,
                       const void *data, size_t size);

/* Writes a safetensors file: the length, `json` as it is, then `data_bytes`
 * bytes of data, byte i being i % 251. */
void temp_folder_write_safetensors(const temp_folder *folder, const char *name,
                                   const char *json, size_t data_bytes);

#endif
