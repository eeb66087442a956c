/* Folders and files for tests. What goes wrong here is no finding: it ends the
 * test program. */
#include "tests/support/temp_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/bytes.h"

static void require(int holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(EXIT_FAILURE);
}

void temp_folder_create(temp_folder *folder) {
  const char *parent = getenv("TMPDIR");
  int length = snprintf(folder->path, sizeof folder->path, "%s/nabla-XXXXXX",
                        parent && parent[0] ? parent : P_tmpdir);
  require(length > 0 && (size_t)length < sizeof folder->path, "TMPDIR");
  require(mkdtemp(folder->path) != NULL, "mkdtemp");
}

void temp_folder_path(const temp_folder *folder, const char *name, char *out) {
  int length = snprintf(out, 256, "%s/%s", folder->path, name);
  require(length > 0 && length < 256, name);
}

/* Visits every name; removes it when asked to. */
static size_t visit(const temp_folder *folder, int remove_each) {
  size_t count = 0;
  DIR *names = opendir(folder->path);
  require(names != NULL, folder->path);
  for (struct dirent *entry; (entry = readdir(names)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    count++;
    if (!remove_each) continue;
    char path[256];
    temp_folder_path(folder, entry->d_name, path);
    require(unlink(path) == 0, path);
  }
  closedir(names);
  return count;
}

void temp_folder_destroy(const temp_folder *folder) {
  visit(folder, 1);
  require(rmdir(folder->path) == 0, folder->path);
}

size_t temp_folder_count(const temp_folder *folder) { return visit(folder, 0); }

static FILE *create(const temp_folder *folder, const char *name) {
  char path[256];
  temp_folder_path(folder, name, path);
  FILE *file = fopen(path, "wb");
  require(file != NULL, path);
  return file;
}

void temp_folder_write(const temp_folder *folder, const char *name,
                       const void *data, size_t size) {
  FILE *file = create(folder, name);
  require(size == 0 || fwrite(data, 1, size, file) == size, name);
  require(fclose(file) == 0, name);
}

void temp_folder_write_safetensors(const temp_folder *folder, const char *name,
                                   const char *json, size_t data_bytes) {
  FILE *file = create(folder, name);
  uint8_t length[8];
  nabla_store_le64(length, strlen(json));
  require(fwrite(length, 1, sizeof length, file) == sizeof length, name);
  require(fwrite(json, 1, strlen(json), file) == strlen(json), name);
  for (size_t i = 0; i < data_bytes; i++)
    require(fputc((int)(i % 251), file) != EOF, name);
  require(fclose(file) == 0, name);
}
