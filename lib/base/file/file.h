/* Reading files by position, and outputs that appear whole or not at all.
 * Functions are defined in output.c and output_folder.c too. */
#ifndef NABLA_BASE_FILE_FILE_H
#define NABLA_BASE_FILE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/memory.h"
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

/* Reads exactly `size` bytes at offset `at`; retries after EINTR and short
 * reads. Returns NABLA_CORRUPT if the file ends before (it shrank while open),
 * NABLA_IO on an error of the system; both name file and offset. */
NABLA_MUST_USE nabla_status nabla_file_read(const nabla_file *file, uint64_t at,
                                            void *out, size_t size,
                                            nabla_diag *diag);

/* Returns NABLA_CORRUPT if the size or modification time of the file has
 * changed since it was opened: the bytes read so far may be from two versions.
 */
NABLA_MUST_USE nabla_status nabla_file_check_unchanged(const nabla_file *file,
                                                       nabla_diag *diag);

/* Appends all bytes of a file to `out`. Returns NABLA_TOO_LARGE if it has more
 * than `limit`, and what nabla_file_read and nabla_file_check_unchanged do. */
NABLA_MUST_USE nabla_status nabla_file_read_all(const nabla_file *file,
                                                size_t limit, nabla_buffer *out,
                                                nabla_diag *diag);

/* An output file under construction: "DIR/.NAME.nabla-PID-N" beside its final
 * name, locked (nabla_os.lock) while it is being written. */
typedef struct nabla_output nabla_output;

typedef struct nabla_output_options {
  const nabla_os *os;               /* NULL: the operating system */
  const nabla_allocator *allocator; /* NULL: malloc               */
  int force;         /* replace an existing file; else NABLA_EXISTS        */
  uint64_t expected; /* size of the finished file in bytes; 0: unknown */
  /* Permissions of a new output, before the umask applies. 0 means 0666, or
   * 0777 for a folder. The owner of a folder always has all permissions. */
  unsigned permissions;
  /* A file or folder whose permissions the output gets, because it takes the
   * place of that file in another folder. NULL: those of the file that it
   * replaces, if any. */
  const nabla_os_info *like;
  int is_part; /* part of an output folder that is not committed yet */
} nabla_output_options;

/* An output of at least EARLY_FROM bytes asks the system after every
 * EARLY_EVERY bytes to begin writing them to disk, which leaves little for the
 * final sync. This slows down the writers a little, and pays off where the sync
 * would take seconds. */
#define NABLA_OUTPUT_EARLY_FROM  ((uint64_t)1 << 30)
#define NABLA_OUTPUT_EARLY_EVERY ((uint64_t)64 << 20)

/* Starts an output. If it replaces a file, or has `like`, it gets the
 * permissions of that, and until the commit only its owner may read it. Fails
 * at once, before any work: for an existing `path` without `force`
 * (NABLA_EXISTS), for a symbolic link or anything but a regular file
 * (NABLA_INVALID_ARGUMENT), for a folder that is missing or not writable
 * (NABLA_IO). Removes temporaries of the same name that a killed process left:
 * those of the same user whose lock is free. */
NABLA_MUST_USE nabla_status
nabla_output_create(const char *path, const nabla_output_options *options,
                    nabla_output **out, nabla_diag *diag);

/* Writes all `size` bytes at offset `at`. Thread-safe for disjoint ranges. A
 * full disk, quota or size limit is NABLA_IO; the message has the number of
 * free bytes. */
NABLA_MUST_USE nabla_status nabla_output_write(nabla_output *output,
                                               uint64_t at, const void *data,
                                               size_t size, nabla_diag *diag);

/* Syncs the file, renames it to its final name (which replaces an existing file
 * only with `force`), and syncs the folder. On failure the final name is
 * unchanged, or has the complete output if a step after the rename failed: then
 * the message says "is in place". Call once. */
NABLA_MUST_USE nabla_status nabla_output_commit(nabla_output *output,
                                                nabla_diag *diag);

/* Frees the output, and removes the temporary if it was not committed. NULL is
 * allowed. */
void nabla_output_destroy(nabla_output *output);

/* Limit on the depth of nested folders, in the output folder and in the folder
 * that it replaces. */
#define NABLA_OUTPUT_MAX_DEPTH 8

/* An output folder under construction: "DIR/.NAME.nabla-PID-N" beside its
 * final name, renamed whole. */
typedef struct nabla_output_folder nabla_output_folder;

/* Decides which files of an existing folder may be removed when it is replaced:
 * returns 1 for such a file or folder. `path` is relative to the existing
 * folder. NULL: none may. */
typedef struct nabla_output_owner {
  void *self;
  int (*owns)(void *self, const char *path, int is_folder);
} nabla_output_owner;

/* As nabla_output_create, for a folder. With `force` an existing folder is
 * exchanged with the new one and then removed, but only if `owner` accepts
 * everything in it (asked now and again at the commit); otherwise NABLA_EXISTS
 * names the first path that it does not accept. `owner` may be NULL; the object
 * that it points to must outlive the output. */
NABLA_MUST_USE nabla_status nabla_output_folder_create(
    const char *path, const nabla_output_options *options,
    const nabla_output_owner *owner, nabla_output_folder **out,
    nabla_diag *diag);

/* Makes the folder `path`, relative to the output, unless it exists; its parent
 * must exist. The folder that it replaces, if any, determines its permissions,
 * otherwise `permissions` as in nabla_output_options. At the commit it is
 * synced like everything else. */
NABLA_MUST_USE nabla_status
nabla_output_folder_add(const nabla_output_folder *folder, const char *path,
                        unsigned permissions, nabla_diag *diag);

/* Returns 1 if a folder of that name is to be replaced and contains the file
 * `path`; *out then describes that file, whose permissions are to be kept. */
int nabla_output_folder_replaces(const nabla_output_folder *folder,
                                 const char *path, nabla_os_info *out);

/* Path of the temporary folder, in which outputs are created. */
const char *nabla_output_folder_borrow_path(const nabla_output_folder *folder);

/* As nabla_output_commit. If an old folder could be neither replaced nor
 * restored, the message says where it is now. */
NABLA_MUST_USE nabla_status
nabla_output_folder_commit(nabla_output_folder *folder, nabla_diag *diag);

/* Frees the output, and removes the temporary folder with its contents if it
 * was not committed. */
void nabla_output_folder_destroy(nabla_output_folder *folder);

#endif
