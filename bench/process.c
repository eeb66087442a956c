/* How long a program takes from start to end, as a process of its own:
 *
 *   process [--runs N] PROGRAM [ARGUMENT...]
 *
 * for the first result of a saved program without a compiler, say. Prints the
 * median, the least and the most of the wall-clock times, and its CPU time. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_RUNS 1000

extern char **environ;

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Its exit code; -1 when it did not start or was ended by a signal. What it
 * prints is dropped. */
static int run_once(char **words) {
  posix_spawn_file_actions_t actions;
  pid_t child;
  int state = 0;
  if (posix_spawn_file_actions_init(&actions)) return -1;
  int error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO,
                                               "/dev/null", O_WRONLY, 0);
  if (!error)
    error = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error || waitpid(child, &state, 0) < 0 || !WIFEXITED(state)) return -1;
  return WEXITSTATUS(state);
}

static double cpu_of_children(void) {
  struct rusage use;
  if (getrusage(RUSAGE_CHILDREN, &use)) return 0;
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
         (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e3;
}

int main(int argc, char **argv) {
  static double times[MOST_RUNS];
  long runs = 21;
  char **words = argv + 1;
  if (argc > 3 && !strcmp(argv[1], "--runs")) {
    runs = strtol(argv[2], NULL, 10);
    words += 2;
  }
  if (!words[0] || argc < 2 || runs < 1 || runs > MOST_RUNS) {
    fprintf(stderr, "usage: process [--runs N] PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  const double cpu = cpu_of_children();
  for (long i = 0; i < runs; i++) {
    const double start = milliseconds();
    if (run_once(words)) {
      fprintf(stderr, "process: '%s' failed\n", words[0]);
      return 1;
    }
    times[i] = milliseconds() - start;
  }
  qsort(times, (size_t)runs, sizeof *times, by_size);
  printf("median %.2f ms, least %.2f, most %.2f; CPU %.2f ms; %ld runs\n",
         times[runs / 2], times[0], times[runs - 1],
         (cpu_of_children() - cpu) / (double)runs, runs);
  return 0;
}
