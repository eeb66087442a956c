/* Looks into an object: it must be one, and stand on its own but for three
 * functions. Objects from the cache come this way too. */
#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/compiler/codegen.h"

/* [at, at + size) lies in the object. */
static int inside(size_t total, uint64_t at, uint64_t size) {
  uint64_t end;
  return nabla_add_u64(at, size, &end) && end <= total;
}

static nabla_status fail_object(const char *what, nabla_diag *diag) {
  return nabla_fail(diag, NABLA_CORRUPT, "the object %s", what);
}

static nabla_status read_header(const uint8_t *data, size_t size,
                                Elf64_Ehdr *out, nabla_diag *diag) {
  if (size < sizeof *out) return fail_object("is too short", diag);
  memcpy(out, data, sizeof *out);
  uint64_t table = (uint64_t)out->e_shnum * sizeof(Elf64_Shdr);
  if (memcmp(out->e_ident, ELFMAG, SELFMAG) ||
      out->e_ident[EI_CLASS] != ELFCLASS64 || out->e_type != ET_REL ||
      out->e_shentsize != sizeof(Elf64_Shdr) ||
      !inside(size, out->e_shoff, table))
    return fail_object("is no relocatable 64-bit ELF file", diag);
  return NABLA_OK;
}

static Elf64_Shdr section(const uint8_t *data, const Elf64_Ehdr *header,
                          uint32_t index) {
  Elf64_Shdr out;
  memcpy(&out, data + header->e_shoff + (uint64_t)index * sizeof out,
         sizeof out);
  return out;
}

static int is_provided(const char *name, size_t room) {
  static const char *const names[] = {"", "memcpy", "memmove", "memset"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t length = strlen(names[i]) + 1;
    if (length <= room && !memcmp(name, names[i], length)) return 1;
  }
  return 0;
}

static nabla_status check_symbols(const uint8_t *data, size_t size,
                                  const Elf64_Shdr *symbols,
                                  const Elf64_Shdr *names, nabla_diag *diag) {
  if (!inside(size, symbols->sh_offset, symbols->sh_size) ||
      !inside(size, names->sh_offset, names->sh_size))
    return fail_object("has a symbol table outside of it", diag);
  uint64_t count = symbols->sh_size / sizeof(Elf64_Sym);
  for (uint64_t i = 0; i < count; i++) {
    Elf64_Sym symbol;
    memcpy(&symbol, data + symbols->sh_offset + i * sizeof symbol,
           sizeof symbol);
    if (symbol.st_name >= names->sh_size)
      return fail_object("has a symbol without a name", diag);
    const char *name = (const char *)data + names->sh_offset + symbol.st_name;
    size_t room = (size_t)(names->sh_size - symbol.st_name);
    if (symbol.st_shndx == SHN_COMMON)
      return fail_object("has a common symbol", diag);
    if (symbol.st_shndx != SHN_UNDEF || is_provided(name, room)) continue;
    nabla_status status =
        nabla_fail(diag, NABLA_CORRUPT,
                   "the program needs '%.*s', which compiled code cannot have",
                   (int)(strnlen(name, room) & 127), name);
    nabla_diag_set_next(diag,
                        "use operations of nabla (docs/OPS.md) on tensors, or "
                        "nabla.custom_call");
    return status;
  }
  return NABLA_OK;
}

nabla_status nabla_object_check(const void *data, size_t size,
                                nabla_diag *diag) {
  Elf64_Ehdr header;
  NABLA_TRY(read_header(data, size, &header, diag));
  for (uint32_t i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr symbols = section(data, &header, i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    if (symbols.sh_entsize != sizeof(Elf64_Sym) ||
        symbols.sh_link >= header.e_shnum)
      return fail_object("has a damaged symbol table", diag);
    Elf64_Shdr names = section(data, &header, symbols.sh_link);
    NABLA_TRY(check_symbols(data, size, &symbols, &names, diag));
  }
  return NABLA_OK;
}
