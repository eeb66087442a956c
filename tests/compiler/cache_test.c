/* lib/compiler/cache.h: what is stored comes back or is not there; damage,
 * other processes, limits and foreign folders never do harm. */
#include "lib/compiler/cache.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/temp_folder.h"

static temp_folder folder;
static char path[256];
static char why[256];

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "cache", path);
}

static int remove_one(const char *name, const struct stat *info, int type,
                      struct FTW *at) {
  (void)info, (void)type, (void)at;
  return remove(name);
}

static void tear_down(void) {
  char below[256];
  temp_folder_path(&folder, "cache", below);
  (void)nftw(below, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  temp_folder_destroy(&folder);
}

TestSuite(cache, .init = set_up, .fini = tear_down, .timeout = 120);

static nabla_cache *open_cache(uint64_t limit) {
  nabla_cache *cache = NULL;
  cr_assert_eq(nabla_cache_open(path, limit, &cache, why, NULL), NABLA_OK);
  return cache;
}

static nabla_cache_key key_of(unsigned number) {
  nabla_cache_key key = {{0}};
  memcpy(key.bytes, &number, sizeof number);
  return key;
}

/* Stores an object of `size` bytes that say `number`. */
static int store(nabla_cache *cache, unsigned number, size_t size) {
  nabla_cache_key key = key_of(number);
  uint8_t *object = malloc(size + 1);
  cr_assert(object);
  memset(object, (int)(number * 31 + 7) & 255, size + 1);
  nabla_cache_entry entry = {.object = object,
                             .object_size = size,
                             .diagnostics = (const uint8_t *)"\1said",
                             .diagnostics_size = 6};
  int error = nabla_cache_store(cache, &key, &entry);
  free(object);
  return error;
}

/* 1 when the entry is there; then it is what `store` made. */
static int holds(nabla_cache *cache, unsigned number, size_t size) {
  nabla_cache_key key = key_of(number);
  nabla_cache_entry entry;
  if (!nabla_cache_find(cache, &key, &entry)) return 0;
  cr_assert_eq(entry.object_size, size);
  for (size_t i = 0; i < size; i++)
    cr_assert_eq(entry.object[i], ((number * 31 + 7) & 255));
  cr_assert_eq(entry.diagnostics_size, 6);
  cr_assert_eq(memcmp(entry.diagnostics, "\1said", 6), 0);
  free(entry.memory);
  return 1;
}

/* Path of the file that holds an entry. */
static void entry_path(unsigned number, char out[400]) {
  nabla_cache_key key = key_of(number);
  int used = snprintf(out, 400, "%s/", path);
  for (size_t i = 0; i < NABLA_CACHE_KEY_SIZE; i++)
    used += snprintf(out + used, 400 - (size_t)used, "%02x", key.bytes[i]);
  snprintf(out + used, 400 - (size_t)used, ".nabla");
}

static size_t count_files(void) {
  size_t count = 0;
  DIR *list = opendir(path);
  cr_assert(list);
  for (struct dirent *item; (item = readdir(list)) != NULL;)
    count += strcmp(item->d_name, ".") && strcmp(item->d_name, "..");
  closedir(list);
  return count;
}

Test(cache, gives_back_what_was_stored) {
  nabla_cache *cache = open_cache(0);
  cr_assert(cache);
  cr_expect_not(holds(cache, 1, 1000));
  cr_expect_eq(store(cache, 1, 1000), 0);
  cr_expect_eq(store(cache, 2, 0), 0);
  cr_expect(holds(cache, 1, 1000));
  cr_expect(holds(cache, 2, 0));
  nabla_cache_close(cache);
  cache = open_cache(0); /* another process would see the same */
  cr_expect(holds(cache, 1, 1000));
  cr_expect_eq(count_files(), 2, "a temporary stayed");
  nabla_cache_close(cache);
}

Test(cache, makes_its_folder_closed_to_others) {
  struct stat info;
  char *end = path + strlen(path);
  snprintf(end, sizeof path - strlen(path), "/a/b");
  umask(0);
  nabla_cache *cache = open_cache(0);
  cr_assert(cache);
  cr_expect_eq(stat(path, &info), 0);
  cr_expect_eq(info.st_mode & 0777, 0700);
  store(cache, 1, 10);
  char name[400];
  entry_path(1, name);
  cr_expect_eq(stat(name, &info), 0);
  cr_expect_eq(info.st_mode & 0777, 0600);
  nabla_cache_close(cache);
}

Test(cache, off_is_no_cache) {
  nabla_cache *cache = (void *)1;
  cr_assert_eq(nabla_cache_open("", 0, &cache, why, NULL), NABLA_OK);
  cr_expect_null(cache);
  cr_expect_str_eq(why, "");
  cr_expect_not(holds(NULL, 1, 1));
  cr_expect_eq(store(NULL, 1, 1), 0);
  nabla_cache_close(NULL);
}

Test(cache, finds_its_default_folder) {
  nabla_cache *cache = NULL;
  setenv("NABLA_CACHE", "", 1);
  cr_assert_eq(nabla_cache_open(NULL, 0, &cache, why, NULL), NABLA_OK);
  cr_expect_null(cache, "NABLA_CACHE= turns it off");
  setenv("NABLA_CACHE", "off", 1);
  cr_assert_eq(nabla_cache_open(NULL, 0, &cache, why, NULL), NABLA_OK);
  cr_expect_null(cache, "NABLA_CACHE=off turns it off");
  cr_assert_eq(nabla_cache_open("off", 0, &cache, why, NULL), NABLA_OK);
  cr_expect_null(cache, "the option, too");
  cr_expect_neq(access("off", F_OK), 0);
  unsetenv("NABLA_CACHE");
  setenv("XDG_CACHE_HOME", path, 1);
  cr_assert_eq(nabla_cache_open(NULL, 0, &cache, why, NULL), NABLA_OK);
  cr_assert(cache);
  char below[300];
  snprintf(below, sizeof below, "%s/nabla", path);
  cr_expect_eq(access(below, R_OK), 0);
  nabla_cache_close(cache);
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "relative", 1); /* nowhere: no cache, no complaint */
  cr_assert_eq(nabla_cache_open(NULL, 0, &cache, why, NULL), NABLA_OK);
  cr_expect_null(cache);
  cr_expect_str_eq(why, "");
}

Test(cache, refuses_a_folder_that_others_may_enter) {
  cr_assert_eq(mkdir(path, 0700), 0);
  cr_assert_eq(chmod(path, 0750), 0);
  cr_expect_null(open_cache(0));
  cr_expect(strstr(why, "others may enter"), "%s", why);
  cr_assert_eq(chmod(path, 0700), 0);
  nabla_cache *cache = open_cache(0);
  cr_expect(cache);
  nabla_cache_close(cache);
}

Test(cache, refuses_a_folder_of_another_user) {
  if (geteuid()) cr_skip_test("needs root, to give a folder away");
  cr_assert_eq(mkdir(path, 0700), 0);
  cr_assert_eq(chown(path, 65534, 65534), 0);
  cr_expect_null(open_cache(0));
  cr_expect(strstr(why, "another user"), "%s", why);
}

Test(cache, refuses_what_is_no_folder) {
  temp_folder_write(&folder, "cache", "x", 1);
  cr_expect_null(open_cache(0));
  cr_expect(strstr(why, "not used"), "%s", why);
}

/* Every byte of an entry: header, key, hash, diagnostics, object. */
Test(cache, removes_an_entry_with_any_byte_damaged) {
  enum { OBJECT = 40, SIZE = 56 + 6 + OBJECT };
  nabla_cache *cache = open_cache(0);
  char name[400];
  entry_path(3, name);
  for (off_t at = 0; at < SIZE; at++) {
    cr_assert_eq(store(cache, 3, OBJECT), 0);
    int fd = open(name, O_RDWR);
    cr_assert_geq(fd, 0);
    uint8_t byte;
    cr_assert_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    cr_expect_not(holds(cache, 3, OBJECT), "byte %d", (int)at);
    cr_expect_neq(access(name, F_OK), 0, "byte %d: still there", (int)at);
  }
  cr_assert_eq(store(cache, 3, OBJECT), 0);
  cr_expect(holds(cache, 3, OBJECT));
  nabla_cache_close(cache);
}

Test(cache, removes_an_entry_that_is_cut_or_too_long) {
  enum { OBJECT = 40, SIZE = 56 + 6 + OBJECT };
  nabla_cache *cache = open_cache(0);
  char name[400];
  entry_path(3, name);
  for (off_t size = 0; size <= SIZE + 3; size++) {
    if (size == SIZE) continue;
    cr_assert_eq(store(cache, 3, OBJECT), 0);
    cr_assert_eq(truncate(name, size), 0);
    cr_expect_not(holds(cache, 3, OBJECT), "%d bytes", (int)size);
    cr_expect_neq(access(name, F_OK), 0);
  }
  nabla_cache_close(cache);
}

/* A file under another key's name: renamed by hand, or a collision. */
Test(cache, refuses_an_entry_of_another_key) {
  nabla_cache *cache = open_cache(0);
  char from[400], to[400];
  store(cache, 4, 10);
  entry_path(4, from);
  entry_path(5, to);
  cr_assert_eq(rename(from, to), 0);
  cr_expect_not(holds(cache, 5, 10));
  nabla_cache_close(cache);
}

Test(cache, follows_no_links_and_waits_for_no_fifo) {
  nabla_cache *cache = open_cache(0);
  char name[400], outside[256];
  store(cache, 6, 10);
  entry_path(6, name);
  temp_folder_path(&folder, "outside", outside);
  cr_assert_eq(rename(name, outside), 0);
  cr_assert_eq(symlink(outside, name), 0);
  cr_expect_not(holds(cache, 6, 10));
  cr_expect_eq(access(outside, F_OK), 0, "what the link names stays");
  cr_expect_eq(store(cache, 6, 10), 0);
  cr_expect(holds(cache, 6, 10));
  cr_assert_eq(unlink(name), 0);
  cr_assert_eq(mkfifo(name, 0600), 0);
  cr_expect_not(holds(cache, 6, 10));
  nabla_cache_close(cache);
}

Test(cache, keeps_to_its_limit_and_drops_the_oldest) {
  enum { SIZE = 10000 };
  nabla_cache *cache = open_cache(10 * SIZE);
  char name[400];
  for (unsigned i = 0; i < 8; i++) {
    store(cache, i, SIZE);
    struct timespec times[2] = {{1000 + (time_t)i, 0}, {1000 + (time_t)i, 0}};
    entry_path(i, name);
    cr_assert_eq(utimensat(AT_FDCWD, name, times, 0), 0);
  }
  cr_expect(holds(cache, 0, SIZE)); /* used: now it is the newest */
  temp_folder_write(&folder, "cache/not-ours", "x", 1);
  for (unsigned i = 8; i < 40; i++) {
    store(cache, i, SIZE);
    cr_expect_leq(count_files(), 11);
    cr_expect(holds(cache, i, SIZE), "the newest stays");
    if (i == 10) {
      cr_expect(holds(cache, 0, SIZE), "what was used stays");
      cr_expect_not(holds(cache, 1, SIZE), "the oldest goes");
    }
  }
  snprintf(name, sizeof name, "%s/not-ours", path);
  cr_expect_eq(access(name, F_OK), 0, "other files stay");
  cr_expect_eq(store(cache, 50, 11 * SIZE), 0); /* larger than all */
  cr_expect_not(holds(cache, 50, 11 * SIZE));
  nabla_cache_close(cache);
}

Test(cache, cleans_up_after_killed_processes) {
  nabla_cache *cache = open_cache(100);
  char name[300];
  struct timespec old[2] = {{1000, 0}, {1000, 0}};
  temp_folder_write(&folder, "cache/.tmp-1-2-3", "x", 1);
  temp_folder_write(&folder, "cache/.tmp-9-9-9", "x", 1);
  snprintf(name, sizeof name, "%s/.tmp-1-2-3", path);
  cr_assert_eq(utimensat(AT_FDCWD, name, old, 0), 0);
  store(cache, 1, 10);
  cr_expect_neq(access(name, F_OK), 0, "an old temporary goes");
  snprintf(name, sizeof name, "%s/.tmp-9-9-9", path);
  cr_expect_eq(access(name, F_OK), 0, "a young one may be in work");
  nabla_cache_close(cache);
}

Test(cache, tells_when_it_cannot_write) {
  nabla_cache *cache = open_cache(0);
  cr_assert(cache);
  char name[400];
  entry_path(1, name);
  cr_assert_eq(mkdir(name, 0700), 0); /* nothing can be renamed over it */
  cr_expect_neq(store(cache, 1, 10), 0);
  cr_expect_eq(count_files(), 1, "a temporary stayed");
  cr_expect_not(holds(cache, 1, 10));
  cr_assert_eq(rmdir(name), 0);
  cr_assert_eq(rmdir(path), 0);
  cr_expect_neq(store(cache, 1, 10), 0);
  nabla_cache_close(cache);
}

/* Writers and readers of the same few keys, and a limit that drops entries all
 * the time: each find gives a whole entry or none. */
Test(cache, serves_several_processes_at_once) {
  enum { PROCESSES = 4, ROUNDS = 400, KEYS = 8, SIZE = 3000 };
  for (int p = 0; p < PROCESSES; p++) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child) continue;
    nabla_cache *cache = NULL;
    if (nabla_cache_open(path, 5 * SIZE, &cache, why, NULL) || !cache) _exit(1);
    for (unsigned i = 0; i < ROUNDS; i++) {
      unsigned number = (i * 7 + (unsigned)p) % KEYS;
      nabla_cache_key key = key_of(number);
      nabla_cache_entry entry;
      if (nabla_cache_find(cache, &key, &entry)) {
        if (entry.object_size != SIZE) _exit(2);
        for (size_t k = 0; k < SIZE; k++)
          if (entry.object[k] != ((number * 31 + 7) & 255)) _exit(3);
        free(entry.memory);
      } else {
        (void)store(cache, number, SIZE);
      }
    }
    nabla_cache_close(cache);
    _exit(0);
  }
  for (int p = 0; p < PROCESSES; p++) {
    int status;
    cr_assert_geq(wait(&status), 0);
    cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "%d", status);
  }
  DIR *list = opendir(path);
  cr_assert(list);
  for (struct dirent *item; (item = readdir(list)) != NULL;)
    cr_expect_neq(strncmp(item->d_name, ".tmp-", 5), 0, "a temporary stayed");
  closedir(list);
}
