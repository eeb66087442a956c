/* Files as blocks of memory. What goes wrong in here, for lack of memory, is
 * no finding: it ends the test program. */
#include "tests/support/memory_os.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE 0x6d656dU

struct memory_node {
  char *path;          /* NULL once unlinked or replaced         */
  const uint8_t *data; /* borrowed, or `own`                     */
  uint8_t *own;
  size_t size, capacity;
  size_t opens;
  int is_folder, is_locked;
  unsigned permissions;
};

static void *must(void *block) {
  if (block) return block;
  fputs("memory_os: out of memory\n", stderr);
  exit(EXIT_FAILURE);
}

/* ---- nodes and descriptors ---------------------------------------------- */

static memory_node *find(const memory_os *memory, const char *path,
                         size_t *out_inode) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  for (size_t i = 0; i < memory->node_count; i++) {
    memory_node *node = memory->nodes[i];
    if (!node || !node->path || strlen(node->path) != length ||
        memcmp(node->path, path, length) != 0)
      continue;
    if (out_inode) *out_inode = i;
    return node;
  }
  return NULL;
}

static size_t add(memory_os *memory, const char *path, int is_folder) {
  size_t inode = memory->node_count++;
  memory->nodes =
      must(realloc(memory->nodes, memory->node_count * sizeof *memory->nodes));
  memory->nodes[inode] = must(calloc(1, sizeof(memory_node)));
  memory->nodes[inode]->path = must(strdup(path));
  memory->nodes[inode]->is_folder = is_folder;
  return inode;
}

/* Frees a node that has neither name nor descriptor. */
static void release(memory_os *memory, size_t inode) {
  memory_node *node = memory->nodes[inode];
  if (node->path || node->opens > 0) return;
  if (node->own) memory->written -= node->size;
  free(node->own);
  free(node);
  memory->nodes[inode] = NULL;
}

static void forget_path(memory_os *memory, size_t inode) {
  free(memory->nodes[inode]->path);
  memory->nodes[inode]->path = NULL;
  release(memory, inode);
}

static memory_node *node_of(memory_os *memory, int fd) {
  if (fd >= 0 && (size_t)fd < memory->opened_count && memory->opened[fd])
    return memory->nodes[memory->opened[fd] - 1];
  memory->misuses++;
  fprintf(stderr, "memory_os: %d is no open descriptor\n", fd);
  return NULL;
}

/* 1 when `path` lies right in a folder that exists. */
static int has_folder(const memory_os *memory, const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash || !slash[1]) return 0;
  char *folder =
      must(strndup(path, slash == path ? 1 : (size_t)(slash - path)));
  const memory_node *node = find(memory, folder, NULL);
  free(folder);
  return node && node->is_folder;
}

/* ---- the calls, each under the lock ------------------------------------- */

#define LOCKED(type, call)               \
  do {                                   \
    memory_os *memory = self;            \
    pthread_mutex_lock(&memory->lock);   \
    type result = call;                  \
    pthread_mutex_unlock(&memory->lock); \
    return result;                       \
  } while (0)

static int do_open(memory_os *memory, const char *path, nabla_os_open_mode mode,
                   unsigned permissions) {
  size_t inode = 0;
  memory_node *node = find(memory, path, &inode);
  if (mode == NABLA_OS_UNNAMED) return -EOPNOTSUPP;
  if (mode == NABLA_OS_CREATE_NEW) {
    if (node) return -EEXIST;
    if (!has_folder(memory, path)) return -ENOENT;
    inode = add(memory, path, 0);
    node = memory->nodes[inode];
    node->own = must(calloc(1, 1));
    node->data = node->own;
    node->permissions = permissions;
  }
  if (!node) return -ENOENT;
  if (mode == NABLA_OS_FOLDER && !node->is_folder) return -ENOTDIR;
  node->opens++;
  size_t fd = 0;
  while (fd < memory->opened_count && memory->opened[fd]) fd++;
  if (fd == memory->opened_count) {
    memory->opened_count++;
    memory->opened = must(
        realloc(memory->opened, memory->opened_count * sizeof *memory->opened));
  }
  memory->opened[fd] = inode + 1;
  return (int)fd;
}

static int do_close(memory_os *memory, int fd) {
  memory_node *node = node_of(memory, fd);
  if (!node) return -EBADF;
  size_t inode = memory->opened[fd] - 1;
  memory->opened[fd] = 0;
  node->opens--;
  node->is_locked = 0;
  release(memory, inode);
  return 0;
}

static int64_t do_pread(memory_os *memory, int fd, void *out, size_t size,
                        uint64_t at) {
  const memory_node *node = node_of(memory, fd);
  if (!node) return -EBADF;
  if (node->is_folder) return -EISDIR;
  if (at > INT64_MAX) return -EINVAL;
  if (at >= node->size) return 0;
  if (size > node->size - at) size = node->size - (size_t)at;
  if (size > memory->max_read) size = (size_t)memory->max_read;
  memcpy(out, node->data + at, size);
  return (int64_t)size;
}

static int64_t do_pwrite(memory_os *memory, int fd, const void *in, size_t size,
                         uint64_t at) {
  memory_node *node = node_of(memory, fd);
  if (!node || !node->own) return -EBADF;
  if (at > memory->limit || size > memory->limit - at) return -ENOSPC;
  size_t end = (size_t)at + size; /* limit is far below SIZE_MAX */
  if (end > node->size) {
    size_t more = end - node->size;
    if (more > memory->limit - memory->written) return -ENOSPC;
    if (end > node->capacity) {
      node->capacity = end + end / 2;
      node->own = must(realloc(node->own, node->capacity));
      node->data = node->own;
    }
    memset(node->own + node->size, 0, more);
    node->size = end;
    memory->written += more;
  }
  if (size > 0) memcpy(node->own + at, in, size);
  return (int64_t)size;
}

static int do_lock(memory_os *memory, int fd) {
  memory_node *node = node_of(memory, fd);
  if (!node) return -EBADF;
  if (node->is_locked) return -EWOULDBLOCK;
  node->is_locked = 1;
  return 0;
}

static int fill_info(const memory_node *node, size_t inode,
                     nabla_os_info *out) {
  *out = (nabla_os_info){.size = node->size,
                         .device = DEVICE,
                         .inode = inode + 1,
                         .changed_ns = 1,
                         .is_file = !node->is_folder,
                         .is_folder = node->is_folder,
                         .is_own = 1,
                         .permissions = node->permissions};
  return 0;
}

static int do_info(memory_os *memory, int fd, nabla_os_info *out) {
  const memory_node *node = node_of(memory, fd);
  if (!node) return -EBADF;
  return fill_info(node, memory->opened[fd] - 1, out);
}

static int do_path_info(memory_os *memory, const char *path,
                        nabla_os_info *out) {
  size_t inode = 0;
  const memory_node *node = find(memory, path, &inode);
  return node ? fill_info(node, inode, out) : -ENOENT;
}

static int is_below(const memory_node *node, const char *folder) {
  size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
  return node && node->path && strncmp(node->path, folder, length) == 0 &&
         node->path[length] == '/' && node->path[length + 1];
}

static int is_empty(const memory_os *memory, const char *folder) {
  for (size_t i = 0; i < memory->node_count; i++)
    if (is_below(memory->nodes[i], folder)) return 0;
  return 1;
}

/* Gives the node at `from`, and all below it, paths that begin with `to`. */
static void move(memory_os *memory, size_t inode, const char *from,
                 const char *to) {
  for (size_t i = 0; i < memory->node_count; i++) {
    memory_node *node = memory->nodes[i];
    if (i != inode && !is_below(node, from)) continue;
    const char *tail = i == inode ? "" : node->path + strlen(from);
    size_t size = strlen(to) + strlen(tail) + 1;
    char *path = must(malloc(size));
    (void)snprintf(path, size, "%s%s", to, tail);
    free(node->path);
    node->path = path;
  }
}

static int do_rename(memory_os *memory, const char *from, const char *to,
                     nabla_os_rename_mode mode) {
  size_t source = 0, target = 0;
  memory_node *node = find(memory, from, &source);
  const memory_node *there = find(memory, to, &target);
  if (!node || !has_folder(memory, to)) return -ENOENT;
  if (mode == NABLA_OS_NO_REPLACE && there) return -EEXIST;
  if (mode == NABLA_OS_EXCHANGE) {
    static const char aside[] = "/.exchange";
    if (!there) return -ENOENT;
    move(memory, target, to, aside);
    move(memory, source, from, to);
    move(memory, target, aside, from);
    return 0;
  }
  if (there && there->is_folder != node->is_folder)
    return there->is_folder ? -EISDIR : -ENOTDIR;
  if (there && there->is_folder && !is_empty(memory, to)) return -ENOTEMPTY;
  if (there) forget_path(memory, target);
  move(memory, source, from, to);
  return 0;
}

static int do_remove(memory_os *memory, const char *path, int is_folder) {
  size_t inode = 0;
  const memory_node *node = find(memory, path, &inode);
  if (!node) return -ENOENT;
  if (node->is_folder != is_folder) return is_folder ? -ENOTDIR : -EISDIR;
  if (is_folder && !is_empty(memory, path)) return -ENOTEMPTY;
  forget_path(memory, inode);
  return 0;
}

static int do_make_folder(memory_os *memory, const char *path,
                          unsigned permissions) {
  if (find(memory, path, NULL)) return -EEXIST;
  if (!has_folder(memory, path)) return -ENOENT;
  const size_t inode = add(memory, path, 1);
  memory->nodes[inode]->permissions = permissions;
  return 0;
}

/* ---- relative to a folder ----------------------------------------------- */

/* The path of what `fd` has open and, with `name`, of that in it. 0, or -errno
 * when it has been removed. */
static int path_at(memory_os *memory, int fd, const char *name, char *out,
                   size_t size) {
  const memory_node *node = node_of(memory, fd);
  if (!node) return -EBADF;
  if (!node->path) return -ENOENT;
  const int length =
      snprintf(out, size, "%s%s%s", node->path,
               name && strcmp(node->path, "/") ? "/" : "", name ? name : "");
  return length < (int)size ? 0 : -ENAMETOOLONG;
}

static int do_open_at(memory_os *memory, int folder, const char *name,
                      nabla_os_open_mode mode, unsigned permissions) {
  char path[PATH_MAX];
  int error = path_at(memory, folder, name, path, sizeof path);
  return error ? error : do_open(memory, path, mode, permissions);
}

static int do_make_folder_at(memory_os *memory, int folder, const char *name,
                             unsigned permissions) {
  char path[PATH_MAX];
  int error = path_at(memory, folder, name, path, sizeof path);
  return error ? error : do_make_folder(memory, path, permissions);
}

static int do_info_at(memory_os *memory, int folder, const char *name,
                      nabla_os_info *out) {
  char path[PATH_MAX];
  int error = path_at(memory, folder, name, path, sizeof path);
  return error ? error : do_path_info(memory, path, out);
}

static int do_remove_at(memory_os *memory, int folder, const char *name,
                        int is_folder) {
  char path[PATH_MAX];
  int error = path_at(memory, folder, name, path, sizeof path);
  return error ? error : do_remove(memory, path, is_folder);
}

static int do_set_mode(memory_os *memory, int fd, const nabla_os_info *like) {
  memory_node *node = node_of(memory, fd);
  if (!node) return -EBADF;
  node->permissions = like->permissions;
  return 0;
}

/* ---- the table ---------------------------------------------------------- */

static int os_open(void *self, const char *path, nabla_os_open_mode mode) {
  LOCKED(int, do_open(memory, path, mode, 0600));
}
static int os_close(void *self, int fd) { LOCKED(int, do_close(memory, fd)); }
static int64_t os_pread(void *self, int fd, void *out, size_t size,
                        uint64_t at) {
  LOCKED(int64_t, do_pread(memory, fd, out, size, at));
}
static int64_t os_pwrite(void *self, int fd, const void *in, size_t size,
                         uint64_t at) {
  LOCKED(int64_t, do_pwrite(memory, fd, in, size, at));
}
static int os_sync(void *self, int fd) {
  LOCKED(int, node_of(memory, fd) ? 0 : -EBADF);
}
static int os_lock(void *self, int fd) { LOCKED(int, do_lock(memory, fd)); }
static int os_info(void *self, int fd, nabla_os_info *out) {
  LOCKED(int, do_info(memory, fd, out));
}
static int os_path_info(void *self, const char *path, int follow,
                        nabla_os_info *out) {
  (void)follow; /* there are no links */
  LOCKED(int, do_path_info(memory, path, out));
}
static int os_rename(void *self, const char *from, const char *to,
                     nabla_os_rename_mode mode) {
  LOCKED(int, do_rename(memory, from, to, mode));
}
static int os_unlink(void *self, const char *path) {
  LOCKED(int, do_remove(memory, path, 0));
}
/* `each` may call back, so it runs without the lock. */
static int os_list(void *self, const char *path,
                   int (*each)(void *context, const char *name),
                   void *context) {
  memory_os *memory = self;
  const memory_node *folder = find(memory, path, NULL);
  if (!folder) return -ENOENT;
  if (!folder->is_folder) return -ENOTDIR;
  int result = 0;
  for (size_t i = 0; i < memory->node_count && !result; i++) {
    const memory_node *node = memory->nodes[i];
    if (!is_below(node, folder->path)) continue;
    const char *name = strrchr(node->path, '/') + 1;
    size_t head = (size_t)(name - node->path) - 1;
    if (head == (strcmp(folder->path, "/") == 0 ? 0 : strlen(folder->path)))
      result = each(context, name);
  }
  return result;
}

static int os_open_at(void *self, int folder, const char *path,
                      nabla_os_open_mode mode, unsigned permissions) {
  LOCKED(int, do_open_at(memory, folder, path, mode, permissions));
}
static int os_make_folder_at(void *self, int folder, const char *path,
                             unsigned permissions) {
  LOCKED(int, do_make_folder_at(memory, folder, path, permissions));
}
static int os_info_at(void *self, int folder, const char *name,
                      nabla_os_info *out) {
  LOCKED(int, do_info_at(memory, folder, name, out));
}
static int os_unlink_at(void *self, int folder, const char *name) {
  LOCKED(int, do_remove_at(memory, folder, name, 0));
}
static int os_remove_folder_at(void *self, int folder, const char *name) {
  LOCKED(int, do_remove_at(memory, folder, name, 1));
}
static int os_set_mode(void *self, int fd, const nabla_os_info *like) {
  LOCKED(int, do_set_mode(memory, fd, like));
}
static int os_path_of(void *self, int fd, char *out, size_t size) {
  LOCKED(int, path_at(memory, fd, NULL, out, size));
}
static int os_list_at(void *self, int folder,
                      int (*each)(void *context, const char *name),
                      void *context) {
  char path[PATH_MAX];
  int error = os_path_of(self, folder, path, sizeof path);
  return error ? error : os_list(self, path, each, context);
}

static int os_free_bytes(void *self, const char *path, uint64_t *out) {
  const memory_os *memory = self;
  (void)path;
  *out = memory->limit - memory->written;
  return 0;
}

void memory_os_init(memory_os *memory, uint64_t limit) {
  *memory = (memory_os){.limit = limit, .max_read = UINT64_MAX};
  memory->os = (nabla_os){.self = memory,
                          .open = os_open,
                          .close = os_close,
                          .pread = os_pread,
                          .pwrite = os_pwrite,
                          .sync = os_sync,
                          .lock = os_lock,
                          .info = os_info,
                          .path_info = os_path_info,
                          .rename = os_rename,
                          .unlink = os_unlink,
                          .list = os_list,
                          .free_bytes = os_free_bytes,
                          .open_at = os_open_at,
                          .make_folder_at = os_make_folder_at,
                          .info_at = os_info_at,
                          .unlink_at = os_unlink_at,
                          .remove_folder_at = os_remove_folder_at,
                          .list_at = os_list_at,
                          .set_mode = os_set_mode,
                          .path_of = os_path_of};
  pthread_mutex_init(&memory->lock, NULL);
  (void)add(memory, "/", 1);
}

int memory_os_destroy(memory_os *memory) {
  int clean = memory->misuses == 0;
  for (size_t i = 0; i < memory->node_count; i++) {
    memory_node *node = memory->nodes[i];
    if (!node) continue;
    if (node->opens > 0) {
      fprintf(stderr, "memory_os: %s is still open\n",
              node->path ? node->path : "an unlinked file");
      clean = 0;
    }
    free(node->path);
    free(node->own);
    free(node);
  }
  free(memory->nodes);
  free(memory->opened);
  pthread_mutex_destroy(&memory->lock);
  return clean;
}

void memory_os_put(memory_os *memory, const char *path, const void *data,
                   size_t size) {
  const size_t inode = add(memory, path, 0); /* moves `nodes` */
  memory_node *node = memory->nodes[inode];
  node->data = data;
  node->size = size;
  node->permissions = 0644;
}

void memory_os_put_folder(memory_os *memory, const char *path) {
  const size_t inode = add(memory, path, 1);
  memory->nodes[inode]->permissions = 0755;
}

const void *memory_os_get(const memory_os *memory, const char *path,
                          size_t *out_size) {
  const memory_node *node = find(memory, path, NULL);
  if (!node || node->is_folder) return NULL;
  *out_size = node->size;
  return node->data;
}

size_t memory_os_count(const memory_os *memory) {
  size_t count = 0;
  for (size_t i = 1; i < memory->node_count; i++)
    count += memory->nodes[i] && memory->nodes[i]->path;
  return count;
}
