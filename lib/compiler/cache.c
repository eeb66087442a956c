/* The object cache. An entry is a file KEY.nabla that is written under another
 * name and renamed, so that readers see all of it or nothing:
 *
 *   0   8  "NABLAOBJ"
 *   8   4  version of this format
 *  12   4  bytes of diagnostics
 *  16   8  bytes of the object
 *  24  16  key
 *  40  16  XXH3-128 of everything else, the hash itself taken as zero
 *  56      diagnostics, object
 *
 * The hash guards against damage. Against malice stands the folder, which must
 * be the user's own and closed to others. */
#include "lib/compiler/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/base/bytes.h"

#define MAGIC         "NABLAOBJ"
#define VERSION       1
#define HEADER        56
#define HASH_AT       40
#define NAME_SIZE     48
#define SUFFIX        ".nabla"
#define TEMPORARY     ".tmp-"
#define STALE_SECONDS 3600
#define MAX_ENTRY     ((uint64_t)1 << 30)
#define DEFAULT_LIMIT ((uint64_t)256 << 20)
#define PATH_SIZE     4096

struct nabla_cache {
  int folder;
  uint64_t limit;
  uint64_t total; /* bytes, as far as known */
  int counted;    /* `total` was counted once */
  unsigned stores;
};

/* ---- the folder ---- */

/* Default folder, or 0 when no variable says where. */
static int default_path(char out[PATH_SIZE]) {
  static const struct {
    const char *variable, *below;
  } places[] = {
      {"XDG_CACHE_HOME", "/nabla"},
      {"HOME", "/.cache/nabla"},
  };
  const char *own = getenv("NABLA_CACHE");
  if (own) return snprintf(out, PATH_SIZE, "%s", own) < PATH_SIZE;
  for (size_t i = 0; i < 2; i++) {
    const char *base = getenv(places[i].variable);
    if (!base || *base != '/') continue;
    return snprintf(out, PATH_SIZE, "%s%s", base, places[i].below) < PATH_SIZE;
  }
  *out = '\0';
  return 1;
}

/* Makes the folder and those above it, closed to others. */
static void make_folders(const char *path) {
  char part[PATH_SIZE];
  size_t length = strlen(path);
  if (length >= sizeof part) return;
  memcpy(part, path, length + 1);
  for (char *slash = strchr(part + 1, '/'); slash;
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    (void)mkdir(part, 0700);
    *slash = '/';
  }
  (void)mkdir(part, 0700);
}

/* Opens the folder; -1 with the reason in `why`. */
static int open_folder(const char *path, char why[256]) {
  struct stat info;
  make_folders(path);
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    snprintf(why, 256, "cache %.180s is not used: %s", path, strerror(errno));
    return -1;
  }
  const char *reason = NULL;
  if (fstat(fd, &info))
    reason = strerror(errno);
  else if (info.st_uid != geteuid())
    reason = "another user owns it";
  else if (info.st_mode & 077)
    reason = "others may enter it (chmod 700)";
  if (!reason) return fd;
  snprintf(why, 256, "cache %.180s is not used: %s", path, reason);
  close(fd);
  return -1;
}

nabla_status nabla_cache_open(const char *path, uint64_t limit,
                              nabla_cache **out, char why[256],
                              nabla_diag *diag) {
  char where[PATH_SIZE];
  *out = NULL;
  *why = '\0';
  if (!path) {
    if (!default_path(where)) {
      snprintf(why, 256, "no cache: the name of its folder is too long");
      return NABLA_OK;
    }
    path = where;
  }
  if (!*path || !strcmp(path, "off")) return NABLA_OK;
  int folder = open_folder(path, why);
  if (folder < 0) return NABLA_OK;
  nabla_cache *cache = calloc(1, sizeof *cache);
  if (!cache) {
    close(folder);
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a cache");
  }
  *cache =
      (nabla_cache){.folder = folder, .limit = limit ? limit : DEFAULT_LIMIT};
  *out = cache;
  return NABLA_OK;
}

void nabla_cache_close(nabla_cache *cache) {
  if (!cache) return;
  close(cache->folder);
  free(cache);
}

/* ---- entries ---- */

static void entry_name(const nabla_cache_key *key, char out[NAME_SIZE]) {
  for (size_t i = 0; i < NABLA_CACHE_KEY_SIZE; i++)
    snprintf(out + 2 * i, 3, "%02x", key->bytes[i]);
  memcpy(out + (size_t)2 * NABLA_CACHE_KEY_SIZE, SUFFIX, sizeof SUFFIX);
}

/* Hash of an entry whose hash field is zero. */
static void hash_entry(const uint8_t *data, size_t size, uint8_t out[16]) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
  memcpy(out, canonical.digest, 16);
}

/* Checks everything, and finds the parts. Clears the hash field. */
static int check_entry(uint8_t *data, size_t size, const nabla_cache_key *key,
                       nabla_cache_entry *out) {
  uint8_t wanted[16], found[16];
  if (size < HEADER || memcmp(data, MAGIC, 8) ||
      nabla_load_le32(data + 8) != VERSION ||
      memcmp(data + 24, key->bytes, NABLA_CACHE_KEY_SIZE))
    return 0;
  uint64_t diagnostics = nabla_load_le32(data + 12);
  uint64_t object = nabla_load_le64(data + 16);
  if (object > MAX_ENTRY || HEADER + diagnostics + object != size) return 0;
  memcpy(wanted, data + HASH_AT, 16);
  memset(data + HASH_AT, 0, 16);
  hash_entry(data, size, found);
  if (memcmp(wanted, found, 16)) return 0;
  *out = (nabla_cache_entry){
      .memory = data,
      .diagnostics = data + HEADER,
      .diagnostics_size = (size_t)diagnostics,
      .object = data + HEADER + diagnostics,
      .object_size = (size_t)object,
  };
  return 1;
}

/* Reads `size` bytes, or fewer at the end of the file; -1 on an error. */
static int64_t read_all(int fd, uint8_t *out, size_t size) {
  size_t got = 0;
  while (got < size) {
    ssize_t part = pread(fd, out + got, size - got, (off_t)got);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return -1;
    if (!part) break;
    got += (size_t)part;
  }
  return (int64_t)got;
}

static int read_entry(int fd, const nabla_cache_key *key,
                      nabla_cache_entry *out) {
  struct stat info;
  if (fstat(fd, &info) || !S_ISREG(info.st_mode) || info.st_size < HEADER ||
      (uint64_t)info.st_size > MAX_ENTRY + ((uint64_t)1 << 24))
    return 0;
  size_t size = (size_t)info.st_size;
  uint8_t *data = malloc(size);
  if (!data) return 0;
  if (read_all(fd, data, size) == (int64_t)size &&
      check_entry(data, size, key, out))
    return 1;
  free(data);
  return 0;
}

int nabla_cache_find(nabla_cache *cache, const nabla_cache_key *key,
                     nabla_cache_entry *out) {
  char name[NAME_SIZE];
  if (!cache) return 0;
  entry_name(key, name);
  /* O_NONBLOCK: a FIFO of that name must not hang */
  int fd = openat(cache->folder, name,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno != ELOOP) return 0; /* ELOOP: a symbolic link */
  int found = fd >= 0 && read_entry(fd, key, out);
  if (found)
    (void)futimens(fd, NULL); /* used just now */
  else
    nabla_cache_remove(cache, key);
  if (fd >= 0) close(fd);
  return found;
}

void nabla_cache_remove(nabla_cache *cache, const nabla_cache_key *key) {
  char name[NAME_SIZE];
  if (!cache) return;
  entry_name(key, name);
  (void)unlinkat(cache->folder, name, 0);
}

/* ---- writing ---- */

static int write_all(int fd, const uint8_t *data, size_t size) {
  while (size) {
    ssize_t part = write(fd, data, size);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) return part < 0 ? errno : ENOSPC;
    data += part, size -= (size_t)part;
  }
  return 0;
}

/* Writes under a name of its own, then renames. */
static int write_entry(nabla_cache *cache, const char *name,
                       const uint8_t *data, size_t size) {
  char temporary[NAME_SIZE];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(temporary, sizeof temporary, TEMPORARY "%ld-%lx-%x", (long)getpid(),
           (unsigned long)now.tv_nsec, cache->stores);
  int fd = openat(cache->folder, temporary,
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = write_all(fd, data, size);
  if (close(fd) && !error) error = errno;
  if (!error && renameat(cache->folder, temporary, cache->folder, name))
    error = errno;
  if (error) (void)unlinkat(cache->folder, temporary, 0);
  return error;
}

/* ---- the limit ---- */

typedef struct file {
  char name[NAME_SIZE];
  struct timespec used;
  uint64_t size;
} file;

static int older_first(const void *a, const void *b) {
  const file *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec)
    return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec)
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int ends_with_suffix(const char *name) {
  size_t length = strlen(name), suffix = strlen(SUFFIX);
  return length == (size_t)2 * NABLA_CACHE_KEY_SIZE + suffix &&
         !strcmp(name + length - suffix, SUFFIX);
}

/* What a killed process left goes after an hour; everything that is not of the
 * cache stays. */
static void remove_stale(const nabla_cache *cache, const char *name,
                         const struct stat *info) {
  if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) ||
      time(NULL) - info->st_mtim.tv_sec < STALE_SECONDS)
    return;
  (void)unlinkat(cache->folder, name, 0);
}

/* All entries; `*out` is free()d. Returns how many. */
static size_t list_entries(nabla_cache *cache, file **out) {
  size_t count = 0, room = 0;
  file *files = NULL;
  int fd = openat(cache->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  if (!folder && fd >= 0) close(fd);
  struct dirent *item;
  while (folder && (item = readdir(folder)) != NULL) {
    struct stat info;
    if (fstatat(cache->folder, item->d_name, &info, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(info.st_mode))
      continue;
    remove_stale(cache, item->d_name, &info);
    if (!ends_with_suffix(item->d_name)) continue;
    if (count == room) {
      room = room ? 2 * room : 256;
      file *more = realloc(files, room * sizeof *more);
      if (!more) break;
      files = more;
    }
    files[count] = (file){.used = info.st_mtim, .size = (uint64_t)info.st_size};
    memcpy(files[count++].name, item->d_name, strlen(item->d_name) + 1);
  }
  if (folder) closedir(folder);
  *out = files;
  return count;
}

/* Counts, and removes the least recently used until a tenth of the limit is
 * free again, so that not every store counts. */
static void trim(nabla_cache *cache) {
  file *files;
  size_t count = list_entries(cache, &files);
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) total += files[i].size;
  if (total > cache->limit) {
    uint64_t goal = cache->limit - cache->limit / 10;
    qsort(files, count, sizeof *files, older_first);
    for (size_t i = 0; i < count && total > goal; i++)
      if (!unlinkat(cache->folder, files[i].name, 0)) total -= files[i].size;
  }
  free(files);
  cache->total = total;
  cache->counted = 1;
}

int nabla_cache_store(nabla_cache *cache, const nabla_cache_key *key,
                      const nabla_cache_entry *entry) {
  char name[NAME_SIZE];
  if (!cache) return 0;
  size_t size = HEADER + entry->diagnostics_size + entry->object_size;
  if (entry->object_size > MAX_ENTRY || size > cache->limit) return 0;
  uint8_t *data = calloc(1, size);
  if (!data) return ENOMEM;
  memcpy(data, MAGIC, 8);
  nabla_store_le32(data + 8, VERSION);
  nabla_store_le32(data + 12, (uint32_t)entry->diagnostics_size);
  nabla_store_le64(data + 16, entry->object_size);
  memcpy(data + 24, key->bytes, NABLA_CACHE_KEY_SIZE);
  if (entry->diagnostics_size)
    memcpy(data + HEADER, entry->diagnostics, entry->diagnostics_size);
  memcpy(data + HEADER + entry->diagnostics_size, entry->object,
         entry->object_size);
  uint8_t hash[16];
  hash_entry(data, size, hash);
  memcpy(data + HASH_AT, hash, 16);
  entry_name(key, name);
  int error = write_entry(cache, name, data, size);
  free(data);
  cache->total += size;
  /* other processes write too: count again now and then */
  if (!cache->counted || cache->total > cache->limit ||
      ++cache->stores % 64 == 0)
    trim(cache);
  return error;
}
