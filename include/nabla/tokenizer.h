/* Tokenizers: text to token ids and back, from the file that comes with a
 * model. docs/C_API.md, "Text and tokens", lists the files and what is
 * supported of each. */
#ifndef NABLA_TOKENIZER_H
#define NABLA_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/environment.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits, each refused with NABLA_TOO_LARGE. */
#define NABLA_TOKENIZER_MAX_FILE (128u << 20) /* bytes of a file            */
#define NABLA_TOKENIZER_MAX_PIECES                                          \
  (1u << 21)                                 /* pieces, and greatest id + 1 \
                                              */
#define NABLA_TOKENIZER_MAX_PIECE 16384u     /* bytes of one piece          */
#define NABLA_TOKENIZER_MAX_TEXT  (1u << 28) /* bytes of one text           */

/* No id: what a file does not define, and what nothing has. */
#define NABLA_TOKEN_NONE UINT32_MAX

/* An open tokenizer. It never changes: every function that takes a const one
 * may be called from several threads at once. */
typedef struct nabla_tokenizer nabla_tokenizer;

/* Reads a tokenizer whole.
 * @param path  a file, whose name says what it is: *.json (Hugging Face, model
 *              BPE), *.model (SentencePiece, BPE or unigram), *.bin (llama2.c);
 *              or a folder, in which the first of tokenizer.json,
 *              tokenizer.model, tokenizer.bin is taken
 * @param environment  its allocator must outlive the tokenizer; may be NULL
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  another name; a folder without such a file
 *         NABLA_CORRUPT           the file contradicts its format or itself
 *         NABLA_UNSUPPORTED       a kind of model, normalizer, pre-tokenizer,
 *                                 decoder or post-processor that this build
 *                                 does not have: the message names its key
 *         NABLA_TOO_LARGE         a limit above
 *         NABLA_IO, NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status
nabla_tokenizer_open(const char *path, const nabla_environment *environment,
                     nabla_tokenizer **out, nabla_diag *diag);

/* Frees it; NULL is allowed. */
NABLA_API void nabla_tokenizer_close(nabla_tokenizer *tokenizer);

/* Greatest id + 1. An engine compares it with the rows of the embedding: a
 * model may have more rows than its tokenizer has pieces, never fewer. */
NABLA_API uint32_t nabla_tokenizer_size(const nabla_tokenizer *tokenizer);

/* Returns the id of a piece, as the file writes pieces, or NABLA_TOKEN_NONE. */
NABLA_API uint32_t nabla_tokenizer_id(const nabla_tokenizer *tokenizer,
                                      const char *piece, size_t length);

/* Returns the piece of an id, as the file writes it: UTF-8, not always
 * NUL-terminated, alive as long as the tokenizer. NULL (and length 0) when no
 * piece has this id. `out_length` may be NULL. */
NABLA_API const char *nabla_tokenizer_piece(const nabla_tokenizer *tokenizer,
                                            uint32_t id, size_t *out_length);

/* Returns 1 for tokens that stand for no text: begin, end, unknown, padding,
 * turns of a chat. */
NABLA_API int nabla_tokenizer_is_special(const nabla_tokenizer *tokenizer,
                                         uint32_t id);

/* Ids with a meaning of their own; NABLA_TOKEN_NONE where the file has none. Of
 * a tokenizer.json `bos` is the first token that its post-processor puts before
 * a text, and `eos` is never known: config.json beside it says it. */
typedef struct nabla_token_roles {
  uint32_t bos; /* begins a text             */
  uint32_t eos; /* ends a text               */
  uint32_t unk; /* stands for unknown pieces */
} nabla_token_roles;

NABLA_API nabla_token_roles
nabla_tokenizer_roles(const nabla_tokenizer *tokenizer);

/* How to encode; flags to be or-ed. */
#define NABLA_ENCODE_PLAIN 0u
/* Adds the tokens that the file puts around a text: what the post-processor of
 * a tokenizer.json says; `bos` before the text for the other files. */
#define NABLA_ENCODE_ADD_SPECIAL 1u
/* Takes the special tokens of a tokenizer.json that stand in the text
 * ("<|eot_id|>") for these tokens. Without it they are text: users cannot end
 * their turn by typing so. In the other files special pieces never come from
 * text. */
#define NABLA_ENCODE_PARSE_SPECIAL 2u

/* Ids, allocated by nabla_tokenizer_encode. */
typedef struct nabla_token_list {
  uint32_t *ids; /* NULL when there are none */
  size_t count;
} nabla_token_list;

/* Encodes a text as the reference of the file does: `sentencepiece` for
 * *.model, Hugging Face's `tokenizers` for *.json, run.c for *.bin. The time
 * grows with size times log(size) at most.
 * @param text  `size` bytes of UTF-8, may hold NUL; NULL with size 0
 * @param out   given to the caller: nabla_token_list_release
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  text that is not UTF-8, with the offset of
 *                                 its first wrong byte; unknown flags
 *         NABLA_UNSUPPORTED       the text has characters that the file cannot
 *                                 express, and no token for unknown ones
 *         NABLA_TOO_LARGE, NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tokenizer_encode(
    const nabla_tokenizer *tokenizer, const char *text, size_t size,
    unsigned flags, nabla_token_list *out, nabla_diag *diag);

/* Frees the ids and sets them to NULL; `tokenizer` is the one that encoded, and
 * still open. NULL is allowed. */
NABLA_API void nabla_token_list_release(const nabla_tokenizer *tokenizer,
                                        nabla_token_list *list);

/* How to decode; flags to be or-ed. */
#define NABLA_DECODE_PLAIN 0u
/* Leaves special tokens out. Without it they are written as the file spells
 * them, but for control pieces of SentencePiece, which are never text. */
#define NABLA_DECODE_SKIP_SPECIAL 1u

/* A text, allocated by nabla_tokenizer_decode. */
typedef struct nabla_token_text {
  char *bytes; /* UTF-8, `size` bytes and a NUL; never NULL on success */
  size_t size;
} nabla_token_text;

/* Decodes ids at once, as the reference does. Bytes that form no character
 * become U+FFFD. For the files whose bytes are pieces of their own (<0x0A>) in
 * a tokenizer.json, that means all bytes of a run that is not UTF-8 as a whole,
 * else only the bytes that are wrong.
 * @param ids  `count` ids; NULL with count 0
 * @param out  given to the caller: nabla_token_text_release
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  an id that no piece has: the message names it
 *                                 and its place; unknown flags
 *         NABLA_TOO_LARGE (1 GiB of text), NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tokenizer_decode(
    const nabla_tokenizer *tokenizer, const uint32_t *ids, size_t count,
    unsigned flags, nabla_token_text *out, nabla_diag *diag);

/* Frees the text and sets it to NULL; NULL is allowed. */
NABLA_API void nabla_token_text_release(const nabla_tokenizer *tokenizer,
                                        nabla_token_text *text);

/* Text that comes token by token. Zero-initialised is the beginning of a text;
 * the caller owns it, it refers to nothing, and may be copied to branch off.
 * The members are the library's. */
typedef struct nabla_token_stream {
  uint8_t held[4]; /* bytes that are not yet a character */
  uint8_t held_count;
  uint8_t has_begun; /* a token has been decoded      */
  uint8_t has_text;  /* a byte of text was given out  */
  uint8_t stripped;  /* spaces left out at its start */
} nabla_token_stream;

/* Returns how many bytes suffice for `out` below, whatever the ids. */
NABLA_API size_t
nabla_tokenizer_stream_capacity(const nabla_tokenizer *tokenizer);

/* Decodes the next id of a stream. Writes whole characters only: bytes that are
 * not yet one are held back until the tokens that complete it. All text of a
 * stream, and of its flush, is that of nabla_tokenizer_decode, but that only
 * the wrong bytes of a run become U+FFFD. Allocates nothing.
 * @param out  gets *out_size bytes, no NUL; `capacity` is at least
 *             nabla_tokenizer_stream_capacity
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  an id that no piece has; a `capacity` too
 *                                 small; unknown flags. The stream is as before
 * Thread-safe for distinct streams. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tokenizer_stream_next(
    const nabla_tokenizer *tokenizer, nabla_token_stream *stream, uint32_t id,
    unsigned flags, char *out, size_t capacity, size_t *out_size,
    nabla_diag *diag);

/* Ends a text: bytes that are still held back are written as U+FFFD, and the
 * stream begins anew. Same arguments and errors. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tokenizer_stream_flush(
    const nabla_tokenizer *tokenizer, nabla_token_stream *stream, char *out,
    size_t capacity, size_t *out_size, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
