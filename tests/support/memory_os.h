/* A nabla_os whose files are in memory: no disk is touched, every file starts
 * empty, and sanitizers see the first byte read beyond a file's end. */
#ifndef NABLA_TESTS_MEMORY_OS_H
#define NABLA_TESTS_MEMORY_OS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "nabla/os.h"

typedef struct memory_node memory_node;

/* Pass &memory.os to the code under test. It must stay where it was
 * initialised. Paths are compared as text: "/a" and "/b/../a" are two. */
typedef struct memory_os {
  nabla_os os;
  pthread_mutex_t lock;
  memory_node **nodes; /* by inode number; NULL once gone    */
  size_t node_count;
  size_t *opened; /* by fd: inode number + 1; 0 when closed  */
  size_t opened_count;
  uint64_t limit;    /* bytes that all written files may have */
  uint64_t written;  /* bytes that they have                  */
  uint64_t max_read; /* bytes that one pread returns at most  */
  size_t misuses;    /* bad fd, file closed twice, ...        */
} memory_os;

/* Holds the folder "/", and takes `limit` bytes of output before ENOSPC. */
void memory_os_init(memory_os *memory, uint64_t limit);

/* Frees every file. Returns 1 when no fd is open and no call was wrong. */
int memory_os_destroy(memory_os *memory);

/* Makes a file whose bytes are borrowed until destroy; it can be read, not
 * written. `path` is absolute and new. */
void memory_os_put(memory_os *memory, const char *path, const void *data,
                   size_t size);

/* Makes a folder; `path` is absolute and new. */
void memory_os_put_folder(memory_os *memory, const char *path);

/* Finds the bytes of a file; NULL when there is none. */
const void *memory_os_get(const memory_os *memory, const char *path,
                          size_t *out_size);

/* How many files and folders there are, "/" not counted. */
size_t memory_os_count(const memory_os *memory);

#endif
