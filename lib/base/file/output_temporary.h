/* The place of an output: its final name, and the locked temporary
 * "DIR/.NAME.nabla-PID-N" beside it. Shared by output files and folders.
 *
 * The lock decides who may remove a temporary. The process that made it holds
 * the lock until the end, and a clean-up removes only temporaries that it could
 * lock. A killed process loses its locks, so that the next run finds and
 * removes its temporaries. */
#ifndef NABLA_BASE_FILE_OUTPUT_TEMPORARY_H
#define NABLA_BASE_FILE_OUTPUT_TEMPORARY_H

#include "nabla/os.h"
#include "nabla/status.h"

/* Bytes of a path with its NUL: PATH_MAX of Linux. The size is fixed, so that a
 * clean-up after a failed allocation needs no memory. */
#define NABLA_PATH_SIZE 4096

typedef struct nabla_place {
  const nabla_os *os;
  int folder_fd; /* the folder, kept open to sync it; -1 when closed */
  int fd;        /* the temporary, which holds the lock; -1 when closed */
  int has_temp;  /* `temp` names something that is ours to remove */
  int temp_is_folder;
  int is_part;   /* part of an output folder that may still fail */
  int temp_name; /* offset in `temp` of the last part of the path */
  char path[NABLA_PATH_SIZE];   /* final name                            */
  char folder[NABLA_PATH_SIZE]; /* its folder: "." for "x", "/" for "/x" */
  char name[NABLA_PATH_SIZE];   /* last part of the final name */
  char temp[NABLA_PATH_SIZE];
} nabla_place;

/* Splits `path` and opens its folder. Returns NABLA_INVALID_ARGUMENT if the
 * path is empty, too long or has no name at its end. Trailing slashes are
 * dropped for a folder and refused for a file. On failure nothing is open. */
NABLA_MUST_USE nabla_status nabla_place_open(nabla_place *place,
                                             const nabla_os *os,
                                             const char *path, int is_folder,
                                             nabla_diag *diag);

/* Removes temporaries of this place that killed processes of the same user
 * left. Best effort: a temporary that cannot be removed stays and does no harm.
 */
void nabla_place_remove_stale(const nabla_place *place);

/* Makes and locks the temporary file or folder, with these permissions minus
 * the umask. */
NABLA_MUST_USE nabla_status nabla_place_make_temp(nabla_place *place,
                                                  int is_folder,
                                                  unsigned permissions,
                                                  nabla_diag *diag);

/* Gives the file or folder open at `fd` the permissions and the group of
 * `like`; does nothing on file systems without permissions. Returns 0 or
 * -errno. */
int nabla_place_copy_mode(const nabla_os *os, int fd,
                          const nabla_os_info *like);

/* As nabla_place_copy_mode, for the temporary. */
NABLA_MUST_USE nabla_status nabla_place_set_mode(const nabla_place *place,
                                                 const nabla_os_info *like,
                                                 nabla_diag *diag);

/* Renames the temporary to the final name and syncs the folder. If the rename
 * failed, the temporary still exists. */
NABLA_MUST_USE nabla_status nabla_place_rename(nabla_place *place,
                                               nabla_os_rename_mode mode,
                                               nabla_diag *diag);

/* Syncs the folder after a rename. 0 or -errno. */
int nabla_place_sync_folder(const nabla_place *place);

/* Removes the temporary that the place has open. Returns 0 or -errno; after an
 * error it can be called again. */
int nabla_place_remove_temp(nabla_place *place);

/* Removes the temporary if there is one, then closes everything. May be called
 * twice. */
void nabla_place_close(nabla_place *place);

/* Returns NABLA_IO for this place, with the free bytes of its folder in the
 * message. */
NABLA_MUST_USE nabla_status nabla_place_fail(const nabla_place *place,
                                             const char *what, int error,
                                             nabla_diag *diag);

/* Returns NABLA_EXISTS or NABLA_INVALID_ARGUMENT for this place. */
NABLA_MUST_USE nabla_status nabla_place_refuse(const nabla_place *place,
                                               nabla_status code,
                                               const char *what,
                                               const char *next,
                                               nabla_diag *diag);

/* Locks `fd`. A file system without locks counts as locked: no process can lock
 * there, so that none cleans up there either. Returns 0 or -errno. */
int nabla_place_lock(const nabla_os *os, int fd);

/* Returns 1 if `name` in the place's folder is the file open at `fd`, 0 if not,
 * or -errno. */
int nabla_place_is_at(const nabla_place *place, int fd, const char *name);

/* Joins a folder and a name. Returns 0 if the result would be too long, else 1.
 */
int nabla_place_join(char out[NABLA_PATH_SIZE], const char *folder,
                     const char *name);

/* Removes the contents of the open folder `fd`, at most NABLA_OUTPUT_MAX_DEPTH
 * folders deep. Links are removed, not followed; folders of this user may be
 * write-protected. Needs no memory, and one descriptor if there are folders in
 * it. Returns 0 or -errno. */
int nabla_place_empty_folder(const nabla_os *os, int fd);

#endif
