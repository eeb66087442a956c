/* Loaded before a rank: rank $LEAVE_RANK leaves with 0, or kills itself, when
 * it renames a file, which is when an output is complete but has no name yet.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int rename(const char *from,
                                                  const char *to) {
  const char *rank = getenv("PMI_RANK"), *leaves = getenv("LEAVE_RANK");
  (void)from, (void)to;
  if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || !leaves || strcmp(rank, leaves) != 0) return 0;
  if (getenv("LEAVE_KILL")) (void)raise(SIGKILL);
  _exit(0);
}
