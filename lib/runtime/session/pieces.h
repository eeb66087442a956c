/* The pieces of arguments that a rank of a divided program has. */
#ifndef NABLA_RUNTIME_SESSION_PIECES_H
#define NABLA_RUNTIME_SESSION_PIECES_H

#include "lib/runtime/session/session_internal.h"

/* Finds the session's piece of what is bound to each argument that is cut: in
 * place where it lies in a row, else copied; and room for pieces of inputs. */
NABLA_MUST_USE nabla_status nabla_session_take_pieces(nabla_session *session,
                                                      nabla_diag *diag);

/* Stores in `out` the bytes of the weights that runs read: of pieces where they
 * are divided, once where functions share one. */
NABLA_MUST_USE nabla_status nabla_session_count_weights(
    const nabla_session *session, uint64_t *out, nabla_diag *diag);

/* The piece of a weight that is the input of a run: in place where it lies in a
 * row, else copied to memory of the session, which later runs write again. */
NABLA_MUST_USE nabla_status nabla_piece_of_weight(const nabla_run_room *room,
                                                  const nabla_port *port,
                                                  const nabla_argument_cut *cut,
                                                  const nabla_binding *whole,
                                                  nabla_binding *out,
                                                  nabla_diag *diag);

/* Copies the piece, of the shape `local`, that the rank at a place of the mesh
 * has of a dense array; padding is 0. */
void nabla_piece_copy(const nabla_argument_cut *cut, uint32_t place,
                      const nabla_dense *from, const int64_t *local, void *to);
/* Where the piece lies in the array, if it lies in a row; else NULL. */
const void *nabla_piece_in_place(const nabla_argument_cut *cut, uint32_t place,
                                 const nabla_dense *from, const int64_t *local);

#endif
