/* Mutations that keep what random ones break first: the cuts between parts,
 * the length before a safetensors header, offsets without holes. Linked where
 * libFuzzer is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed);

enum { MAX_PARTS = 4, LENGTH_SIZE = 8, MAX_DATA = 16384 };

/* A part in work: `size` of `room` bytes are used. */
typedef struct piece {
  uint8_t *data;
  size_t size, room;
} piece;

static uint64_t state;

/* splitmix64 (public domain, Vigna) */
static uint64_t draw(uint64_t below) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return below ? (z ^ (z >> 31)) % below : 0;
}

/* Replaces bytes [at, at + old) by `text`; nothing happens without room. */
static void splice(piece *p, size_t at, size_t old, const void *text,
                   size_t size) {
  if (p->size - old + size > p->room) return;
  memmove(p->data + at + size, p->data + at + old, p->size - at - old);
  if (size > 0) memcpy(p->data + at, text, size);
  p->size = p->size - old + size;
}

/* ---- JSON --------------------------------------------------------------- */

static int is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* The start of some number, or of some structural byte; SIZE_MAX if none. */
static size_t find_some(const piece *p, int want_number) {
  size_t start = (size_t)draw(p->size);
  for (size_t i = 0; i < p->size; i++) {
    size_t at = (start + i) % p->size;
    int starts =
        want_number
            ? is_digit(p->data[at]) && (at == 0 || !is_digit(p->data[at - 1]))
            : strchr("{}[],:\"", p->data[at]) != NULL && p->data[at] != 0;
    if (starts) return at;
  }
  return SIZE_MAX;
}

static void change_number(piece *p) {
  static const char *const values[] = {"0",
                                       "1",
                                       "2",
                                       "7",
                                       "8",
                                       "15",
                                       "16",
                                       "31",
                                       "32",
                                       "63",
                                       "64",
                                       "128",
                                       "255",
                                       "256",
                                       "4096",
                                       "8192",
                                       "65536",
                                       "2147483647",
                                       "2147483648",
                                       "4294967295",
                                       "4294967296",
                                       "536870911",
                                       "1073741824",
                                       "1152921504606846976",
                                       "2305843009213693952",
                                       "4611686018427387903",
                                       "4611686018427387904",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "-1",
                                       "1.0",
                                       "1e3",
                                       "0x1",
                                       "01",
                                       "null",
                                       "\"1\"",
                                       "[]",
                                       "{}",
                                       "true"};
  size_t at = find_some(p, 1), end = at;
  if (at == SIZE_MAX) return;
  while (end < p->size && is_digit(p->data[end])) end++;
  const char *value = values[draw(sizeof values / sizeof *values)];
  splice(p, at, end - at, value, strlen(value));
}

/* Removes, repeats or moves what stands between two structural bytes. */
static void change_span(piece *p) {
  size_t a = find_some(p, 0), b = find_some(p, 0), to = find_some(p, 0);
  if (a == SIZE_MAX || a == b) return;
  if (a > b) {
    size_t swap = a;
    a = b;
    b = swap;
  }
  size_t size = b - a;
  uint8_t *copy = malloc(size);
  if (!copy) return;
  memcpy(copy, p->data + a, size);
  uint64_t how = draw(4);
  if (how == 0) {
    splice(p, a, size, NULL, 0);
  } else {
    splice(p, to, 0, copy, size);
  }
  free(copy);
}

static void mutate_json(piece *p) {
  switch (draw(4)) {
    case 0:
      change_number(p);
      break;
    case 1:
      change_span(p);
      break;
    default:
      p->size = LLVMFuzzerMutate(p->data, p->size, p->room);
  }
}

/* ---- safetensors -------------------------------------------------------- */

static uint64_t read_number(const piece *p, size_t *at) {
  uint64_t value = 0;
  while (*at < p->size && !is_digit(p->data[*at]) && p->data[*at] != ']') ++*at;
  for (; *at < p->size && is_digit(p->data[*at]); ++*at)
    value = value * 10 + (uint64_t)(p->data[*at] - '0');
  return value;
}

/* Makes the data_offsets of a header contiguous, keeping sizes up to MAX_DATA.
 * Returns where the last one ends. */
static uint64_t lay_out(piece *header) {
  static const char key[] = "\"data_offsets\"";
  uint64_t end = 0;
  for (size_t at = 0; at < header->size;) {
    const uint8_t *found =
        memmem(header->data + at, header->size - at, key, sizeof key - 1);
    if (!found) break;
    at = (size_t)(found - header->data) + sizeof key - 1;
    size_t stop = at;
    uint64_t from = read_number(header, &stop), to = read_number(header, &stop);
    uint64_t size = to - from > MAX_DATA ? 0 : to - from;
    char text[64];
    int length =
        snprintf(text, sizeof text, ":[%llu,%llu", (unsigned long long)end,
                 (unsigned long long)(end + size));
    splice(header, at, stop - at, text, (size_t)length);
    at += (size_t)length;
    end += size;
  }
  return end;
}

/* Writes a header of a few small tensors that is right in every field. */
static uint64_t invent(piece *header) {
  static const char *const names[] = {"a",
                                      "b",
                                      "c",
                                      "a.weight",
                                      "a.weight.absmax",
                                      "a.weight.quant_map",
                                      "a.weight.quant_state.bitsandbytes__nf4",
                                      "a.weight.nabla.format",
                                      "a.weight.nabla.scales",
                                      "a.SCB",
                                      "a.weight_format"};
  static const struct {
    const char *name;
    unsigned bits;
  } types[] = {{"F32", 32}, {"U8", 8},   {"I8", 8}, {"BF16", 16},  {"F16", 16},
               {"F64", 64}, {"BOOL", 8}, {"F4", 4}, {"F6_E2M3", 6}};
  uint64_t end = 0, count = draw(6);
  header->size = 0;
  splice(header, 0, 0, "{", 1);
  for (uint64_t i = 0; i < count; i++) {
    size_t type = (size_t)draw(sizeof types / sizeof *types);
    uint64_t rows = draw(5) * 8, columns = draw(6);
    uint64_t bytes = rows * columns * types[type].bits / 8;
    char text[256];
    int length = snprintf(
        text, sizeof text,
        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu,%llu],"
        "\"data_offsets\":[%llu,%llu]}",
        i ? "," : "", names[draw(sizeof names / sizeof *names)],
        types[type].name, (unsigned long long)rows, (unsigned long long)columns,
        (unsigned long long)end, (unsigned long long)(end + bytes));
    splice(header, header->size, 0, text, (size_t)length);
    end += bytes;
  }
  splice(header, header->size, 0, "}", 1);
  return end;
}

/* Mutates the header; its length and mostly the size of the data follow. */
static void mutate_header(piece *p, size_t length) {
  piece header = {malloc(p->room), length, p->room - LENGTH_SIZE};
  if (!header.data) return;
  memcpy(header.data, p->data + LENGTH_SIZE, length);
  size_t data_size = p->size - LENGTH_SIZE - length;
  uint64_t wanted = data_size;
  if (draw(12) == 0) {
    wanted = invent(&header);
  } else {
    for (uint64_t i = draw(3) + 1; i > 0; i--) mutate_json(&header);
    if (draw(2)) wanted = lay_out(&header);
  }
  splice(p, LENGTH_SIZE, length, header.data, header.size);
  if (p->size == LENGTH_SIZE + header.size + data_size) {
    nabla_store_le64(p->data, header.size);
    size_t end = LENGTH_SIZE + header.size;
    if (wanted <= p->room - end) {
      if (end + wanted > p->size)
        memset(p->data + p->size, 0, end + (size_t)wanted - p->size);
      p->size = end + (size_t)wanted;
    }
  }
  free(header.data);
}

static void mutate_safetensors(piece *p) {
  uint64_t length = p->size >= LENGTH_SIZE ? nabla_load_le64(p->data) : 0;
  if (p->room < 64 || length > p->size - LENGTH_SIZE || p->size < LENGTH_SIZE ||
      draw(16) == 0) {
    p->size = LLVMFuzzerMutate(p->data, p->size, p->room);
    return;
  }
  size_t begin = LENGTH_SIZE + (size_t)length;
  if (p->size > begin && draw(3) == 0) /* same size: the header stays right */
    (void)LLVMFuzzerMutate(p->data + begin, p->size - begin, p->size - begin);
  else
    mutate_header(p, (size_t)length);
}

/* ---- any input ---------------------------------------------------------- */

static void mutate_part(piece *p, char kind) {
  if (kind == 'S')
    mutate_safetensors(p);
  else if (kind == 'J')
    mutate_json(p);
  else
    p->size = LLVMFuzzerMutate(p->data, p->size, p->room);
}

/* Writes the parts to `out` with number `chosen` mutated. */
static size_t rebuild(fuzz_span input, size_t chosen, uint8_t *out,
                      size_t max_size) {
  const char *kinds = fuzz_shape + (fuzz_shape[0] == 'b');
  size_t parts = strlen(kinds), size = 0;
  for (size_t i = 0; i < parts; i++) {
    fuzz_span part = fuzz_part(input, i, parts);
    size_t left = max_size - size, reserved = (parts - i) * FUZZ_CUT_SIZE;
    if (left < reserved || part.size > left - reserved) return 0;
    if (part.size > 0) memcpy(out + size, part.data, part.size);
    size_t others =
        i + 1 < parts
            ? (size_t)(input.data + input.size - part.data) - part.size
            : 0;
    piece p = {out + size, part.size, left - reserved};
    if (p.room > others + part.size) p.room -= others;
    if (i == chosen && p.room > 0) mutate_part(&p, kinds[i]);
    size += p.size;
    if (i + 1 == parts) break;
    memcpy(out + size, FUZZ_CUT, FUZZ_CUT_SIZE);
    size += FUZZ_CUT_SIZE;
  }
  return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed) {
  state = seed;
  size_t head = fuzz_shape[0] == 'b' ? FUZZ_OPTIONS : 0;
  size_t parts = strlen(fuzz_shape) - (head > 0);
  if (size < head || max_size < head + 64 || draw(24) == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  if (head && draw(12) == 0) {
    (void)LLVMFuzzerMutate(data, head, head);
    return size;
  }
  uint8_t *out = malloc(max_size);
  if (!out) return size;
  size_t made = rebuild((fuzz_span){data + head, size - head},
                        (size_t)draw(parts), out, max_size - head);
  if (made > 0) memcpy(data + head, out, made);
  free(out);
  return made > 0 ? head + made : size;
}
