/* Where an output will stand: its final name, and the locked temporary
 * "DIR/.NAME.nabla-PID-N" beside it. Shared by output files and folders.
 *
 * The lock decides who may remove a temporary: its maker holds it until the
 * end, and whoever cleans up removes only what it could lock. A killed process
 * loses its locks, so that the next run finds and removes what it left. */
#ifndef NABLA_BASE_FILE_OUTPUT_TEMPORARY_H
#define NABLA_BASE_FILE_OUTPUT_TEMPORARY_H

#include "nabla/os.h"
#include "nabla/status.h"

/* Bytes of a path with its NUL: PATH_MAX of Linux. Fixed, so that clean-up
 * after a failed allocation needs no memory. */
#define NABLA_PATH_SIZE 4096

typedef struct nabla_place {
  const nabla_os *os;
  int folder_fd; /* the folder, kept open to sync it; -1 when closed */
  int fd;        /* the temporary, which holds the lock; -1 when closed */
  int has_temp;  /* `temp` names something that is ours to remove */
  int temp_is_folder;
  int is_part;   /* it lies in an output folder that may still fail */
  int temp_name; /* where in `temp` its last part begins */
  char path[NABLA_PATH_SIZE];   /* final name                            */
  char folder[NABLA_PATH_SIZE]; /* its folder: "." for "x", "/" for "/x" */
  char name[NABLA_PATH_SIZE];   /* its last part                         */
  char temp[NABLA_PATH_SIZE];
} nabla_place;

/* Splits `path` and opens its folder. NABLA_INVALID_ARGUMENT for a path that
 * is empty, too long or has no name at its end. Trailing slashes are dropped
 * for a folder and refused for a file. On failure nothing is open. */
NABLA_MUST_USE nabla_status nabla_place_open(nabla_place *place,
                                             const nabla_os *os,
                                             const char *path, int is_folder,
                                             nabla_diag *diag);

/* Removes what killed processes of the same user left under temporary names of
 * this place. Best effort: what cannot be removed stays and does no harm. */
void nabla_place_remove_stale(const nabla_place *place);

/* Makes and locks the temporary file or folder, with these permissions less
 * umask. */
NABLA_MUST_USE nabla_status nabla_place_make_temp(nabla_place *place,
                                                  int is_folder,
                                                  unsigned permissions,
                                                  nabla_diag *diag);

/* Gives what `fd` has open the permissions and the group of `like`; file
 * systems without permissions have nothing to keep. 0 or -errno. */
int nabla_place_copy_mode(const nabla_os *os, int fd,
                          const nabla_os_info *like);

/* The same with the temporary. */
NABLA_MUST_USE nabla_status nabla_place_set_mode(const nabla_place *place,
                                                 const nabla_os_info *like,
                                                 nabla_diag *diag);

/* Renames the temporary to the final name and syncs the folder: the temporary
 * is gone, or still there when the rename failed. */
NABLA_MUST_USE nabla_status nabla_place_rename(nabla_place *place,
                                               nabla_os_rename_mode mode,
                                               nabla_diag *diag);

/* Syncs the folder after a rename. 0 or -errno. */
int nabla_place_sync_folder(const nabla_place *place);

/* Removes the temporary that the place's descriptor has open. 0 or -errno; it
 * can be tried again. */
int nabla_place_remove_temp(nabla_place *place);

/* Removes the temporary if there is one, then closes everything. May be called
 * twice. */
void nabla_place_close(nabla_place *place);

/* NABLA_IO about this place, with the free bytes of its folder. */
NABLA_MUST_USE nabla_status nabla_place_fail(const nabla_place *place,
                                             const char *what, int error,
                                             nabla_diag *diag);

/* NABLA_EXISTS or NABLA_INVALID_ARGUMENT about this place. */
NABLA_MUST_USE nabla_status nabla_place_refuse(const nabla_place *place,
                                               nabla_status code,
                                               const char *what,
                                               const char *next,
                                               nabla_diag *diag);

/* Locks `fd`. Filesystems without locks count as locked: nobody can lock
 * there, so nobody cleans up there either. 0 or -errno. */
int nabla_place_lock(const nabla_os *os, int fd);

/* 1 when `name` in the place's folder is itself what `fd` has open, 0 when
 * not, else -errno. */
int nabla_place_is_at(const nabla_place *place, int fd, const char *name);

/* Joins a folder and a name. 1, or 0 when the result would be too long. */
int nabla_place_join(char out[NABLA_PATH_SIZE], const char *folder,
                     const char *name);

/* Removes what is in the open folder `fd`, at most NABLA_OUTPUT_MAX_DEPTH
 * folders deep. Links are removed, not followed; folders of our user may be
 * write-protected. Needs no memory, and one descriptor where there are folders
 * in it. 0 or -errno. */
int nabla_place_empty_folder(const nabla_os *os, int fd);

#endif
