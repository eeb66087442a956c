/* Peers as nabla-bench sees them: programs that bench/peers/peer.h describes,
 * in $NABLA_PEERS, else $XDG_CACHE_HOME/nabla-peers, else
 * ~/.cache/nabla-peers. */
#ifndef NABLA_BENCH_PEER_H
#define NABLA_BENCH_PEER_H

#include "bench/nabla-bench/bench.h"

typedef struct bench_peer bench_peer;

/* Starts a peer and lets it make its weights; it sleeps until it is asked.
 * @return NABLA_UNSUPPORTED when it is not installed, or has no such format;
 *         NABLA_IO when it fails */
NABLA_MUST_USE nabla_status bench_peer_open(const char *name,
                                            const char *format,
                                            const bench_problem *problem,
                                            uint32_t copies, bench_peer **out,
                                            nabla_diag *diag);
/* Starts a peer of programs of one operation (ops.def), none of them yet. */
NABLA_MUST_USE nabla_status bench_peer_open_ops(const char *name,
                                                bench_peer **out,
                                                nabla_diag *diag);
/* The operation that it runs from here on.
 * @return NABLA_UNSUPPORTED when it has no such operation; NABLA_IO */
NABLA_MUST_USE nabla_status bench_peer_open_op(bench_peer *self, const char *op,
                                               const char *type,
                                               uint32_t threads,
                                               const uint32_t shape[4],
                                               nabla_diag *diag);
/* Starts nabla-peer-PROGRAM of the peer `name` with up to four arguments (NULL
 * ends them), until it is ready.
 * @return as bench_peer_open */
NABLA_MUST_USE nabla_status bench_peer_open_program(
    const char *name, const char *program, const char *const arguments[4],
    bench_peer **out, nabla_diag *diag);
/* Sends a line, its end included, and reads the seconds that the peer answers,
 * which it prints in nanoseconds. */
NABLA_MUST_USE nabla_status bench_peer_ask(bench_peer *self,
                                           const char *request, double *out,
                                           nabla_diag *diag);
void bench_peer_close(bench_peer *self);

/* Version and features, in the peer's words. */
const char *bench_peer_version(const bench_peer *self);
double bench_peer_bytes(const bench_peer *self);

/* See contest.h. */
nabla_status bench_peer_run(void *self, uint64_t first, uint32_t count,
                            double *out, nabla_diag *diag);

/* The folder of all peers; 0 where its path is too long. */
int bench_peer_folder(char *out, size_t size);

/* Whether `list`, "all", "none" or names with commas, has it. */
int bench_peer_is_wanted(const char *list, const char *name);
/* Refuses a list with a name that is none. */
NABLA_MUST_USE nabla_status bench_peer_check_list(const char *list,
                                                  nabla_diag *diag);

#endif
