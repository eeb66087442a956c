/* Runs a fuzz target over the files of folders, for builds without libFuzzer:
 * replay FOLDER... Fails when a folder has no files or one cannot be read. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Gives the target memory of exactly the file's size, so that sanitizers see
 * the first byte read beyond it. */
static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  struct stat info;
  if (!file || fstat(fileno(file), &info)) {
    if (file) fclose(file);
    return 0;
  }
  size_t size = (size_t)info.st_size;
  uint8_t *data = malloc(size ? size : 1);
  int ok = data && fread(data, 1, size, file) == size;
  fclose(file);
  if (ok) (void)LLVMFuzzerTestOneInput(data, size);
  free(data);
  return ok;
}

/* Returns how many files were replayed; -1 after saying what went wrong. */
static int replay_folder(const char *folder) {
  struct dirent **names;
  int count = scandir(folder, &names, NULL, alphasort), files = 0;
  for (int i = 0; i < count; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    if (names[i]->d_name[0] != '.' && files >= 0) {
      files = replay_file(path) ? files + 1 : -1;
      if (files < 0) fprintf(stderr, "replay: cannot read %s\n", path);
    }
    free(names[i]);
  }
  if (count >= 0) free(names);
  if (files == 0) fprintf(stderr, "replay: %s has no files\n", folder);
  return files > 0 ? files : -1;
}

int main(int argc, char **argv) {
  int total = 0;
  for (int i = 1; i < argc; i++) {
    int files = replay_folder(argv[i]);
    if (files < 0) return 1;
    total += files;
  }
  printf("figure: files_replayed %d\n", total);
  return total == 0;
}
