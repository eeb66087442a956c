/* Reading files by position, and outputs that appear whole or not at all.
 * Functions are defined in output.c and output_folder.c too. */
#ifndef NABLA_BASE_FILE_FILE_H
#define NABLA_BASE_FILE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/os.h"
#include "nabla/status.h"

/* A file open for reading. Read calls are thread-safe. */
typedef struct nabla_file nabla_file;

/* Opens a regular file; anything else (folder, FIFO, device) is
 * NABLA_INVALID_ARGUMENT, an operating system error NABLA_IO. `os` and
 * `allocator` may be NULL. */
NABLA_MUST_USE nabla_status nabla_file_open(const nabla_os *os,
                                            const nabla_allocator *allocator,
                                            const char *path, nabla_file **out,
                                            nabla_diag *diag);
void nabla_file_close(nabla_file *file); /* NULL is allowed */

uint64_t nabla_file_size(const nabla_file *file);
const char *nabla_file_borrow_path(const nabla_file *file);
const nabla_os_info *nabla_file_borrow_info(const nabla_file *file);
/* Closed with the file. */
int nabla_file_borrow_descriptor(const nabla_file *file);

/* Reads exactly `size` bytes at `at`. Retries EINTR and short reads. The end
 * of the file is NABLA_CORRUPT (it shrank while open), an error NABLA_IO; both
 * name file and offset. */
NABLA_MUST_USE nabla_status nabla_file_read(const nabla_file *file, uint64_t at,
                                            void *out, size_t size,
                                            nabla_diag *diag);

/* NABLA_CORRUPT when size or modification time differ from when it was opened:
 * what was read may be of two versions. */
NABLA_MUST_USE nabla_status nabla_file_check_unchanged(const nabla_file *file,
                                                       nabla_diag *diag);

/* An output file under construction: "DIR/.NAME.nabla-PID-N" beside its final
 * name, locked (nabla_os.lock) while it is being written. */
typedef struct nabla_output nabla_output;

typedef struct nabla_output_options {
  const nabla_os *os;               /* NULL: the operating system */
  const nabla_allocator *allocator; /* NULL: malloc               */
  int force;         /* replace an existing file; else NABLA_EXISTS        */
  uint64_t expected; /* bytes that it will have; 0: unknown                */
  /* Permissions of a new output, less umask; 0: 0666, or 0777 for a folder,
   * whose owner may always do all. */
  unsigned permissions;
  /* Not NULL: it is to have the permissions of this, of which it takes the
   * place in another folder. NULL: of what it replaces, if anything. */
  const nabla_os_info *like;
  int is_part; /* of an output folder that is not committed yet */
} nabla_output_options;

/* While an output of at least so many bytes is written, the disk is asked to
 * begin each time that so many more are there: little is left for the final
 * sync. That costs the writers some of their time, which pays where the sync
 * would take seconds. */
#define NABLA_OUTPUT_EARLY_FROM  ((uint64_t)1 << 30)
#define NABLA_OUTPUT_EARLY_EVERY ((uint64_t)64 << 20)

/* Starts an output. What is replaced, or `like`, hands down its permissions:
 * until the commit its user alone may read the new one. Refuses at once, before
 * any work: an existing `path` without `force` (NABLA_EXISTS), a symbolic link
 * or anything but a regular file (NABLA_INVALID_ARGUMENT), a folder that is
 * missing or not writable (NABLA_IO). Removes temporaries of the same name that
 * a killed process left (those of the same user whose lock is free). */
NABLA_MUST_USE nabla_status
nabla_output_create(const char *path, const nabla_output_options *options,
                    nabla_output **out, nabla_diag *diag);

/* Writes all `size` bytes at `at`; thread-safe for disjoint ranges. A full
 * disk, quota or size limit is NABLA_IO, with the free bytes in the text. */
NABLA_MUST_USE nabla_status nabla_output_write(nabla_output *output,
                                               uint64_t at, const void *data,
                                               size_t size, nabla_diag *diag);

/* Syncs the file, renames it to its final name (never over an existing one
 * unless `force`), syncs the folder. On failure the final name is as it was
 * before, or holds the complete output: then the text says "is in place" (what
 * failed came after the rename). Call once. */
NABLA_MUST_USE nabla_status nabla_output_commit(nabla_output *output,
                                                nabla_diag *diag);

/* Frees; removes the temporary when it was not committed. NULL is allowed. */
void nabla_output_destroy(nabla_output *output);

/* Folders in an output folder, one inside the other: of what is made, and of
 * what is replaced. */
#define NABLA_OUTPUT_MAX_DEPTH 8

/* An output folder under construction: "DIR/.NAME.nabla-PID-N" beside its
 * final name, renamed whole. */
typedef struct nabla_output_folder nabla_output_folder;

/* Says what of an existing folder may go when it is replaced. `path` is
 * relative to it. NULL: nothing. */
typedef struct nabla_output_owner {
  void *self;
  int (*owns)(void *self, const char *path, int is_folder);
} nabla_output_owner;

/* As nabla_output_create. With `force` an existing folder is exchanged with
 * the new one and then removed, but only when everything in it is owned (which
 * is asked again at commit); else NABLA_EXISTS naming the first that is not.
 * `owner` may be NULL; what it points to must outlive the output. */
NABLA_MUST_USE nabla_status nabla_output_folder_create(
    const char *path, const nabla_output_options *options,
    const nabla_output_owner *owner, nabla_output_folder **out,
    nabla_diag *diag);

/* Makes the folder `path`, relative to the output, unless it is there; the one
 * it lies in must be. `permissions` as in nabla_output_options, those of a
 * folder whose place it takes come before. What is made is as durable at commit
 * as the rest. */
NABLA_MUST_USE nabla_status
nabla_output_folder_add(const nabla_output_folder *folder, const char *path,
                        unsigned permissions, nabla_diag *diag);

/* 1 when a folder of that name is to be replaced and holds the file `path`,
 * which *out then describes; its permissions are to be kept. */
int nabla_output_folder_replaces(const nabla_output_folder *folder,
                                 const char *path, nabla_os_info *out);

/* Path of the temporary folder, to create outputs in. */
const char *nabla_output_folder_borrow_path(const nabla_output_folder *folder);

/* As nabla_output_commit. When an old folder could be neither replaced nor put
 * back, the text says where it is. */
NABLA_MUST_USE nabla_status
nabla_output_folder_commit(nabla_output_folder *folder, nabla_diag *diag);

/* Frees; removes the temporary folder and all in it when not committed. */
void nabla_output_folder_destroy(nabla_output_folder *folder);

#endif
