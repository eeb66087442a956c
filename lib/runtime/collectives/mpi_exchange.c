/* Exchanges by messages. Every member sends each other one a header, with the
 * data behind it where they are small, so that all know that they mean the same
 * exchange before more is sent. Joins are those of join.c, so that the bytes do
 * not depend on the transport. */
#include <stdlib.h>
#include <string.h>

#include "lib/runtime/collectives/mpi_internal.h"

enum { TAG = 1 }; /* messages of two ranks arrive in the order of sending */

/* ---- messages ---- */

static nabla_status remember(nabla_mpi_comm *comm, uint32_t peer,
                             nabla_diag *diag) {
  if (comm->peer_count == comm->peer_room) {
    const size_t room = comm->peer_room ? 2 * comm->peer_room : 64;
    uint32_t *grown = realloc(comm->peers, room * sizeof *grown);
    if (!grown)
      return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for messages");
    comm->peers = grown;
    comm->peer_room = room;
  }
  comm->peers[comm->peer_count++] = peer;
  return NABLA_OK;
}

static nabla_status send_to(nabla_mpi_comm *comm, const void *data,
                            uint64_t bytes, uint32_t rank, nabla_diag *diag) {
  for (uint64_t at = 0, piece; at < bytes; at += piece) {
    piece = bytes - at < comm->chunk ? bytes - at : comm->chunk;
    NABLA_TRY(remember(comm, rank, diag));
    const int error = comm->abi->send(comm->mpi, NABLA_MPI_EXCHANGE,
                                      (const uint8_t *)data + at, (size_t)piece,
                                      (int)rank, TAG);
    if (error) return nabla_mpi_fail(comm, error, diag);
  }
  return NABLA_OK;
}

static nabla_status receive(nabla_mpi_comm *comm, void *data, uint64_t bytes,
                            uint32_t rank, nabla_diag *diag) {
  for (uint64_t at = 0, piece; at < bytes; at += piece) {
    piece = bytes - at < comm->chunk ? bytes - at : comm->chunk;
    NABLA_TRY(remember(comm, rank, diag));
    const int error =
        comm->abi->receive(comm->mpi, NABLA_MPI_EXCHANGE, (uint8_t *)data + at,
                           (size_t)piece, (int)rank, TAG);
    if (error) return nabla_mpi_fail(comm, error, diag);
  }
  return NABLA_OK;
}

static nabla_status finish(nabla_mpi_comm *comm, nabla_diag *diag) {
  const nabla_status status = nabla_mpi_wait(comm, diag);
  comm->peer_count = 0;
  return status;
}

static nabla_status take_scratch(nabla_mpi_comm *comm, uint64_t bytes,
                                 nabla_diag *diag) {
  if (bytes <= comm->scratch_size) return NABLA_OK;
  uint8_t *grown = realloc(comm->scratch, (size_t)bytes);
  if (!grown)
    return nabla_fail(diag, NABLA_NO_MEMORY,
                      "no memory for %llu bytes of an exchange",
                      (unsigned long long)bytes);
  comm->scratch = grown;
  comm->scratch_size = (size_t)bytes;
  return NABLA_OK;
}

/* ---- headers, and small data ---- */

static uint8_t *slot(const nabla_mpi_comm *comm, int received, uint32_t index) {
  return comm->slots +
         (size_t)((received ? comm->base.ranks : 0) + index) * NABLA_MPI_SLOT;
}

static uint8_t *data_of(const nabla_mpi_comm *comm, int received,
                        uint32_t index) {
  return slot(comm, received, index) + sizeof(nabla_mpi_header);
}

/* Bytes that members give each other where they are small, else 0. Who sends to
 * whom in a permutation is known behind the headers alone. */
static uint32_t small_bytes(const nabla_collective *c) {
  const uint64_t bytes = nabla_collective_piece(c);
  return bytes <= NABLA_MPI_SMALL && c->kind != NABLA_COLLECTIVE_PERMUTE
             ? (uint32_t)bytes
             : 0;
}

static nabla_status swap_headers(nabla_mpi_comm *comm,
                                 const nabla_collective *c, uint32_t bytes,
                                 nabla_diag *diag) {
  const nabla_mpi_header header = {nabla_collective_key(c), c->source, bytes};
  for (uint32_t m = 0; m < c->count; m++)
    if (m != c->index)
      NABLA_TRY(
          receive(comm, slot(comm, 1, m), NABLA_MPI_SLOT, c->members[m], diag));
  for (uint32_t m = 0; m < c->count; m++) {
    memcpy(slot(comm, 0, m), &header, sizeof header);
    if (bytes) nabla_collective_pack(c, m, data_of(comm, 0, m));
    if (m != c->index)
      NABLA_TRY(send_to(comm, slot(comm, 0, m), sizeof header + bytes,
                        c->members[m], diag));
  }
  NABLA_TRY(finish(comm, diag));
  for (uint32_t m = 0; m < c->count; m++) {
    const nabla_mpi_header *other = (const void *)slot(comm, 1, m);
    if (m != c->index && other->key != header.key)
      return nabla_mpi_give_up(
          comm, "ranks exchange arrays of different types or sizes", diag);
  }
  return NABLA_OK;
}

/* Joins, or puts in place, pieces of all members: `pieces` without the own. */
static void take_all(const nabla_collective *c, const void **pieces) {
  if (c->kind == NABLA_COLLECTIVE_ALL_REDUCE ||
      c->kind == NABLA_COLLECTIVE_REDUCE_SCATTER) {
    nabla_collective_join(c->join, c->dtype, pieces, c->count, 0,
                          c->outer * c->rows * c->inner, c->out);
    return;
  }
  if (c->kind == NABLA_COLLECTIVE_PERMUTE && c->source == UINT32_MAX)
    memset(c->out, 0, (size_t)nabla_collective_piece(c));
  for (uint32_t m = 0; m < c->count; m++)
    if (m == c->index)
      (void)nabla_collective_take(c, m, c->in);
    else if (pieces[m])
      nabla_collective_unpack(c, m, pieces[m]);
}

/* Whether this member gets data of member `from`. */
static int takes(const nabla_collective *c, uint32_t from) {
  const int is_one = c->kind == NABLA_COLLECTIVE_BROADCAST ||
                     c->kind == NABLA_COLLECTIVE_PERMUTE;
  return from != c->index && (!is_one || from == c->source);
}

static uint64_t take_small(const nabla_mpi_comm *comm,
                           const nabla_collective *c, uint32_t bytes) {
  const void *pieces[NABLA_COMM_MAX_RANKS];
  for (uint32_t m = 0; m < c->count; m++)
    pieces[m] = data_of(comm, m != c->index, m);
  take_all(c, pieces);
  return (uint64_t)(c->count - 1) * bytes;
}

/* ---- large data ---- */

/* Elements of an all_reduce that a member joins for all. */
static uint64_t share_of(const nabla_collective *c, uint32_t member,
                         uint64_t *first) {
  const uint64_t count = c->outer * c->rows * c->inner;
  *first = count / c->count * member;
  return member + 1 == c->count ? count - *first : count / c->count;
}

static nabla_status reduce_shares(nabla_mpi_comm *comm,
                                  const nabla_collective *c, nabla_diag *diag) {
  const uint64_t element = nabla_dtype_bits(c->dtype) / 8;
  const void *pieces[NABLA_COMM_MAX_RANKS];
  uint64_t first, other_first;
  const uint64_t share = share_of(c, c->index, &first);
  const uint64_t bytes = share * element;
  NABLA_TRY(take_scratch(comm, c->count * bytes, diag));
  for (uint32_t m = 0; m < c->count; m++) {
    pieces[m] = comm->scratch + m * bytes;
    if (m != c->index)
      NABLA_TRY(
          receive(comm, comm->scratch + m * bytes, bytes, c->members[m], diag));
  }
  pieces[c->index] = (const uint8_t *)c->in + first * element;
  for (uint32_t m = 0; m < c->count; m++) {
    const uint64_t other = share_of(c, m, &other_first);
    if (m != c->index)
      NABLA_TRY(send_to(comm, (const uint8_t *)c->in + other_first * element,
                        other * element, c->members[m], diag));
  }
  NABLA_TRY(finish(comm, diag));
  nabla_collective_join(c->join, c->dtype, pieces, c->count, 0, share,
                        (uint8_t *)c->out + first * element);
  return NABLA_OK;
}

static nabla_status gather_shares(nabla_mpi_comm *comm,
                                  const nabla_collective *c, nabla_diag *diag) {
  const uint64_t element = nabla_dtype_bits(c->dtype) / 8;
  uint64_t first, other_first;
  const uint64_t share = share_of(c, c->index, &first);
  uint8_t *out = c->out;
  for (uint32_t m = 0; m < c->count; m++) {
    const uint64_t other = share_of(c, m, &other_first);
    if (m != c->index)
      NABLA_TRY(receive(comm, out + other_first * element, other * element,
                        c->members[m], diag));
  }
  for (uint32_t m = 0; m < c->count; m++)
    if (m != c->index)
      NABLA_TRY(send_to(comm, out + first * element, share * element,
                        c->members[m], diag));
  return finish(comm, diag);
}

/* Whether the pieces that members give, or get, lie in arrays as they are. */
static int is_sent_in_place(const nabla_collective *c) {
  return c->kind != NABLA_COLLECTIVE_ALL_TO_ALL &&
         (c->kind != NABLA_COLLECTIVE_REDUCE_SCATTER || c->outer == 1);
}

static int is_taken_in_place(const nabla_collective *c) {
  return c->kind == NABLA_COLLECTIVE_BROADCAST ||
         c->kind == NABLA_COLLECTIVE_PERMUTE ||
         (c->kind == NABLA_COLLECTIVE_ALL_GATHER && c->outer == 1);
}

static nabla_status receive_pieces(nabla_mpi_comm *comm,
                                   const nabla_collective *c, uint64_t bytes,
                                   const void **pieces, nabla_diag *diag) {
  const int in_place = is_taken_in_place(c);
  for (uint32_t m = 0; m < c->count; m++) {
    uint8_t *to =
        in_place ? (uint8_t *)c->out +
                       (c->kind == NABLA_COLLECTIVE_ALL_GATHER ? m * bytes : 0)
                 : comm->scratch + m * bytes;
    pieces[m] = in_place ? NULL : to;
    if (takes(c, m)) NABLA_TRY(receive(comm, to, bytes, c->members[m], diag));
  }
  return NABLA_OK;
}

/* Whether member `to`, whose header came, gets data of this one. */
static int gives(const nabla_mpi_comm *comm, const nabla_collective *c,
                 uint32_t to) {
  const nabla_mpi_header *other = (const void *)slot(comm, 1, to);
  const int is_one = c->kind == NABLA_COLLECTIVE_BROADCAST ||
                     c->kind == NABLA_COLLECTIVE_PERMUTE;
  return to != c->index && (!is_one || other->source == c->index);
}

static nabla_status send_pieces(nabla_mpi_comm *comm, const nabla_collective *c,
                                uint64_t bytes, nabla_diag *diag) {
  for (uint32_t m = 0; m < c->count; m++) {
    const uint8_t *from =
        (const uint8_t *)c->in +
        (c->kind == NABLA_COLLECTIVE_REDUCE_SCATTER ? m * bytes : 0);
    if (!is_sent_in_place(c)) {
      uint8_t *packed = comm->scratch + (c->count + m) * bytes;
      nabla_collective_pack(c, m, packed);
      from = packed;
    }
    if (gives(comm, c, m))
      NABLA_TRY(send_to(comm, from, bytes, c->members[m], diag));
  }
  return NABLA_OK;
}

static nabla_status move_pieces(nabla_mpi_comm *comm, const nabla_collective *c,
                                nabla_diag *diag) {
  const uint64_t bytes = nabla_collective_piece(c);
  const void *pieces[NABLA_COMM_MAX_RANKS];
  if (!is_taken_in_place(c) || !is_sent_in_place(c))
    NABLA_TRY(take_scratch(comm, 2 * c->count * bytes, diag));
  NABLA_TRY(receive_pieces(comm, c, bytes, pieces, diag));
  NABLA_TRY(send_pieces(comm, c, bytes, diag));
  NABLA_TRY(finish(comm, diag));
  if (c->kind == NABLA_COLLECTIVE_REDUCE_SCATTER)
    pieces[c->index] = is_sent_in_place(c)
                           ? (const uint8_t *)c->in + c->index * bytes
                           : comm->scratch + (c->count + c->index) * bytes;
  take_all(c, pieces);
  return NABLA_OK;
}

static uint64_t bytes_taken(const nabla_collective *c) {
  uint64_t first, taken = 0;
  if (c->kind == NABLA_COLLECTIVE_ALL_REDUCE) {
    const uint64_t count = c->outer * c->rows * c->inner;
    const uint64_t share = share_of(c, c->index, &first);
    return ((c->count - 1) * share + count - share) *
           (nabla_dtype_bits(c->dtype) / 8);
  }
  for (uint32_t m = 0; m < c->count; m++)
    if (takes(c, m)) taken += nabla_collective_piece(c);
  return taken;
}

nabla_status nabla_mpi_exchange(nabla_mpi_comm *comm, const nabla_collective *c,
                                nabla_diag *diag) {
  const uint32_t small = small_bytes(c);
  uint64_t taken = 0;
  NABLA_TRY(swap_headers(comm, c, small, diag));
  if (small) {
    taken = take_small(comm, c, small);
  } else if (c->kind == NABLA_COLLECTIVE_ALL_REDUCE) {
    NABLA_TRY(reduce_shares(comm, c, diag));
    NABLA_TRY(gather_shares(comm, c, diag));
    taken = bytes_taken(c);
  } else {
    NABLA_TRY(move_pieces(comm, c, diag));
    taken = bytes_taken(c);
  }
  if (!c->is_check) atomic_fetch_add(&comm->base.bytes[c->rank], taken);
  return NABLA_OK;
}
