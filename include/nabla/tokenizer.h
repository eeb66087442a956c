/* Tokenizers: they convert text to token ids and back, by the file that comes
 * with a model. docs/C_API.md, "Text and tokens", lists the kinds of files and
 * their supported features. */
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

/* Not an id: stands for a token that the file does not define. */
#define NABLA_TOKEN_NONE UINT32_MAX

/* An open tokenizer. It never changes: functions that take a const
 * nabla_tokenizer may be called from several threads at once. */
typedef struct nabla_tokenizer nabla_tokenizer;

/* Opens a tokenizer and reads its file completely.
 * @param path  a file, whose suffix determines its format: *.json (Hugging
 *              Face, model BPE), *.model (SentencePiece, BPE or unigram), *.bin
 *              (llama2.c); or a folder, in which the first of tokenizer.json,
 *              tokenizer.model and tokenizer.bin that exists is opened
 * @param environment  its allocator must outlive the tokenizer; may be NULL
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  another suffix; a folder without such a file
 *         NABLA_CORRUPT           the file contradicts its format or itself
 *         NABLA_UNSUPPORTED       a kind of model, normalizer, pre-tokenizer,
 *                                 decoder or post-processor that this version
 *                                 does not support; the message names its key
 *         NABLA_TOO_LARGE         a limit above
 *         NABLA_IO, NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status
nabla_tokenizer_open(const char *path, const nabla_environment *environment,
                     nabla_tokenizer **out, nabla_diag *diag);

/* Frees a tokenizer; NULL is allowed. */
NABLA_API void nabla_tokenizer_close(nabla_tokenizer *tokenizer);

/* Returns the greatest id + 1. An engine compares it with the number of rows of
 * the embedding: a model may have more rows than its tokenizer has pieces,
 * never fewer. */
NABLA_API uint32_t nabla_tokenizer_size(const nabla_tokenizer *tokenizer);

/* Returns the id of a piece, as the file writes pieces, or NABLA_TOKEN_NONE. */
NABLA_API uint32_t nabla_tokenizer_id(const nabla_tokenizer *tokenizer,
                                      const char *piece, size_t length);

/* Returns the piece of an id, as the file writes it: UTF-8, not always
 * NUL-terminated, alive as long as the tokenizer. NULL (and length 0) when no
 * piece has this id. `out_length` may be NULL. */
NABLA_API const char *nabla_tokenizer_piece(const nabla_tokenizer *tokenizer,
                                            uint32_t id, size_t *out_length);

/* Returns 1 for special tokens, which stand for no text: begin, end, unknown,
 * padding, the turns of a chat. */
NABLA_API int nabla_tokenizer_is_special(const nabla_tokenizer *tokenizer,
                                         uint32_t id);

/* Ids of special tokens; NABLA_TOKEN_NONE if the file has none. For a
 * tokenizer.json, `bos` is the first token that its post-processor puts before
 * a text. `eos` is then always NABLA_TOKEN_NONE: the model's config.json has
 * it. */
typedef struct nabla_token_roles {
  uint32_t bos; /* begins a text             */
  uint32_t eos; /* ends a text               */
  uint32_t unk; /* stands for unknown pieces */
} nabla_token_roles;

NABLA_API nabla_token_roles
nabla_tokenizer_roles(const nabla_tokenizer *tokenizer);

/* Flags of encoding, combined by `|`. */
#define NABLA_ENCODE_PLAIN 0u
/* Adds the special tokens around a text: those of the post-processor of a
 * tokenizer.json; for the other files, `bos` before the text. */
#define NABLA_ENCODE_ADD_SPECIAL 1u
/* Encodes the spelling of a special token of a tokenizer.json in the text, such
 * as "<|eot_id|>", to this token. Without the flag it is encoded as plain text,
 * so that users cannot end their turn by typing it. With the other files, text
 * is never encoded to special tokens. */
#define NABLA_ENCODE_PARSE_SPECIAL 2u

/* A list of ids, allocated by nabla_tokenizer_encode. */
typedef struct nabla_token_list {
  uint32_t *ids; /* NULL when there are none */
  size_t count;
} nabla_token_list;

/* Encodes a text to the same ids as the reference implementation:
 * `sentencepiece` for *.model, Hugging Face's `tokenizers` for *.json, run.c of
 * llama2.c for *.bin. The time is at most proportional to size log(size).
 * @param text  `size` bytes of UTF-8, NUL included; may be NULL if size is 0
 * @param out   the caller frees it with nabla_token_list_release
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  text that is not UTF-8, with the offset of
 *                                 its first wrong byte; unknown flags
 *         NABLA_UNSUPPORTED       the text has a character that no piece of the
 *                                 file expresses, and the file has no token for
 *                                 unknown pieces
 *         NABLA_TOO_LARGE, NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tokenizer_encode(
    const nabla_tokenizer *tokenizer, const char *text, size_t size,
    unsigned flags, nabla_token_list *out, nabla_diag *diag);

/* Frees the ids of a list and sets them to NULL. `tokenizer` is the tokenizer
 * that encoded them; it must still be open. NULL is allowed. */
NABLA_API void nabla_token_list_release(const nabla_tokenizer *tokenizer,
                                        nabla_token_list *list);

/* Flags of decoding, combined by `|`. */
#define NABLA_DECODE_PLAIN 0u
/* Leaves special tokens out. Without the flag they are written as the file
 * spells them, except control pieces of SentencePiece, which are never written.
 */
#define NABLA_DECODE_SKIP_SPECIAL 1u

/* A text, allocated by nabla_tokenizer_decode. */
typedef struct nabla_token_text {
  char *bytes; /* UTF-8, `size` bytes and a NUL; never NULL on success */
  size_t size;
} nabla_token_text;

/* Decodes all ids of a text, to the text of the reference implementation. Bytes
 * that form no character become U+FFFD. If a tokenizer.json has pieces for
 * bytes (<0x0A>), all bytes of a sequence of such pieces that is not UTF-8 as a
 * whole are replaced; otherwise only the wrong bytes are.
 * @param ids  `count` ids; may be NULL if count is 0
 * @param out  the caller frees it with nabla_token_text_release
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

/* The state of decoding one text token by token. A zero-initialised stream is
 * at the beginning of a text. The caller owns it; it holds no pointers and may
 * be copied, to continue a text in two ways. Only the library reads and writes
 * its members. */
typedef struct nabla_token_stream {
  uint8_t held[4]; /* bytes that are not yet a character */
  uint8_t held_count;
  uint8_t has_begun; /* a token has been decoded      */
  uint8_t has_text;  /* a byte of text was given out  */
  uint8_t stripped;  /* spaces left out at its start */
} nabla_token_stream;

/* Returns the `capacity` that suffices for nabla_tokenizer_stream_next and
 * nabla_tokenizer_stream_flush, whatever the ids. */
NABLA_API size_t
nabla_tokenizer_stream_capacity(const nabla_tokenizer *tokenizer);

/* Decodes the next id of a stream. Writes whole characters only: the bytes of
 * an incomplete character are held back until later tokens complete it. All
 * outputs of a stream together, with that of its flush, equal the text of
 * nabla_tokenizer_decode, except that always only wrong bytes become U+FFFD.
 * Allocates nothing.
 * @param out  gets *out_size bytes, without a NUL; `capacity` is at least
 *             nabla_tokenizer_stream_capacity
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  an id that no piece has; a `capacity` that
 *                                 is too small; unknown flags. The stream does
 *                                 not change
 * Thread-safe for distinct streams. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tokenizer_stream_next(
    const nabla_tokenizer *tokenizer, nabla_token_stream *stream, uint32_t id,
    unsigned flags, char *out, size_t capacity, size_t *out_size,
    nabla_diag *diag);

/* Ends a text: writes bytes that are still held back as U+FFFD, and sets the
 * stream to the beginning of a text. Arguments and errors are those of
 * nabla_tokenizer_stream_next. */
NABLA_API NABLA_MUST_USE nabla_status nabla_tokenizer_stream_flush(
    const nabla_tokenizer *tokenizer, nabla_token_stream *stream, char *out,
    size_t capacity, size_t *out_size, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
