/* Functions that nabla-lower-services puts into every program: calls through
 * the table of nabla/services.h, written as MLIR. Inlined, then gone. */
#ifndef NABLA_TRANSFORMS_ABI_SERVICES_HELPERS_H
#define NABLA_TRANSFORMS_ABI_SERVICES_HELPERS_H

#include <stddef.h>

#include "nabla/services.h"
#include "transforms/abi/services.h"

_Static_assert(offsetof(nabla_services, failed) == 16, "ABI");
_Static_assert(offsetof(nabla_services, allocate) == 24, "ABI");
_Static_assert(offsetof(nabla_services, release) == 32, "ABI");
_Static_assert(offsetof(nabla_services, parallel) == 40, "ABI");
_Static_assert(offsetof(nabla_services, fail) == 48, "ABI");
_Static_assert(offsetof(nabla_services, call) == 56, "ABI");
_Static_assert(NABLA_SERVICES_ALIGNMENT == 64, "ABI");

#define HELPER "attributes {always_inline, " NABLA_HELPER_MARK "}"
#define MEMBER(offset)                             \
  "  %at = llvm.getelementptr inbounds %s[" offset \
  "] : (!llvm.ptr) -> !llvm.ptr, i8\n"             \
  "  %f = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr\n"

/* nabla.failed     says whether a call has failed, its own or one below
 * nabla.multiply   2^64 - 1 where the product, nabla.add where the sum, wraps
 */
static const char nabla_services_helpers[] =
    "llvm.func internal @nabla.fail(%s: !llvm.ptr, %code: i32, %where: "
    "!llvm.ptr, %a: i64, %b: i64) attributes {no_inline, " NABLA_HELPER_MARK
    "} {\n" MEMBER("48")
    "  llvm.call %f(%s, %code, %where, %a, %b) : !llvm.ptr, (!llvm.ptr, i32, "
    "!llvm.ptr, i64, i64) -> ()\n"
    "  llvm.return\n"
    "}\n"
    "llvm.func internal @nabla.failed(%s: !llvm.ptr) -> i1 " HELPER " {\n"
    "  %at = llvm.getelementptr inbounds %s[16] : (!llvm.ptr) -> !llvm.ptr, "
    "i8\n"
    "  %p = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr\n"
    "  %flag = llvm.load %p : !llvm.ptr -> i32\n"
    "  %zero = llvm.mlir.constant(0 : i32) : i32\n"
    "  %is = llvm.icmp \"ne\" %flag, %zero : i32\n"
    "  llvm.return %is : i1\n"
    "}\n"
    "llvm.func internal @nabla.allocate(%s: !llvm.ptr, %size: i64) -> "
    "(!llvm.ptr {llvm.align = 64 : i64, llvm.noalias}) " HELPER " {\n" MEMBER(
        "24")
    "  %p = llvm.call %f(%s, %size) : !llvm.ptr, (!llvm.ptr, i64) -> "
    "(!llvm.ptr {llvm.align = 64 : i64, llvm.noalias})\n"
    "  %null = llvm.mlir.zero : !llvm.ptr\n"
    "  %none = llvm.icmp \"eq\" %p, %null : !llvm.ptr\n"
    "  llvm.cond_br %none weights([1, 1048575]), ^fail, ^done\n"
    "^fail:\n"
    "  %code = llvm.mlir.constant(1 : i32) : i32\n"
    "  %zero = llvm.mlir.constant(0 : i64) : i64\n"
    "  llvm.call @nabla.fail(%s, %code, %null, %size, %zero) : (!llvm.ptr, "
    "i32, !llvm.ptr, i64, i64) -> ()\n"
    "  llvm.br ^done\n"
    "^done:\n"
    "  llvm.return %p : !llvm.ptr\n"
    "}\n"
    "llvm.func internal @nabla.release(%s: !llvm.ptr, %p: !llvm.ptr) " HELPER
    " {\n" MEMBER("32")
    "  llvm.call %f(%s, %p) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> ()\n"
    "  llvm.return\n"
    "}\n"
    "llvm.func internal @nabla.parallel(%s: !llvm.ptr, %kernel: !llvm.ptr, "
    "%words: !llvm.ptr, %count: i64, %grain: i64) " HELPER " {\n" MEMBER("40")
    "  llvm.call %f(%s, %kernel, %words, %count, %grain) : !llvm.ptr, "
    "(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> ()\n"
    "  llvm.return\n"
    "}\n"
    "llvm.func internal @nabla.call(%s: !llvm.ptr, %site: i64, %words: "
    "!llvm.ptr) " HELPER " {\n" MEMBER("56")
    "  llvm.call %f(%s, %site, %words) : !llvm.ptr, (!llvm.ptr, i64, "
    "!llvm.ptr) -> ()\n"
    "  llvm.return\n"
    "}\n"
    "llvm.func internal @nabla.require_equal(%s: !llvm.ptr, %a: i64, %b: i64, "
    "%where: !llvm.ptr) " HELPER
    " {\n"
    "  %differ = llvm.icmp \"ne\" %a, %b : i64\n"
    "  llvm.cond_br %differ weights([1, 1048575]), ^fail, ^done\n"
    "^fail:\n"
    "  %code = llvm.mlir.constant(2 : i32) : i32\n"
    "  llvm.call @nabla.fail(%s, %code, %where, %a, %b) : (!llvm.ptr, i32, "
    "!llvm.ptr, i64, i64) -> ()\n"
    "  llvm.br ^done\n"
    "^done:\n"
    "  llvm.return\n"
    "}\n"
    "llvm.func internal @nabla.require_divisors(%s: !llvm.ptr, %zeros: i64, "
    "%where: !llvm.ptr) " HELPER
    " {\n"
    "  %zero = llvm.mlir.constant(0 : i64) : i64\n"
    "  %bad = llvm.icmp \"ne\" %zeros, %zero : i64\n"
    "  llvm.cond_br %bad weights([1, 1048575]), ^fail, ^done\n"
    "^fail:\n"
    "  %code = llvm.mlir.constant(3 : i32) : i32\n"
    "  llvm.call @nabla.fail(%s, %code, %where, %zeros, %zero) : (!llvm.ptr, "
    "i32, !llvm.ptr, i64, i64) -> ()\n"
    "  llvm.br ^done\n"
    "^done:\n"
    "  llvm.return\n"
    "}\n"
    "llvm.func internal @nabla.fill_table(%s: !llvm.ptr, %to: !llvm.ptr, "
    "%from: !llvm.ptr, %entries: !llvm.ptr, %count: i64) attributes {no_inline, "
    NABLA_HELPER_MARK "} {\n"
    "  %zero = llvm.mlir.constant(0 : i64) : i64\n"
    "  %one = llvm.mlir.constant(1 : i64) : i64\n"
    "  llvm.br ^next(%zero : i64)\n"
    "^next(%i: i64):\n"
    "  %a = llvm.getelementptr %entries[%i] : (!llvm.ptr, i64) -> !llvm.ptr, "
    "i32\n"
    "  %entry = llvm.load %a : !llvm.ptr -> i32\n"
    "  %at = llvm.sext %entry : i32 to i64\n"
    "  %b = llvm.getelementptr %from[%at] : (!llvm.ptr, i64) -> !llvm.ptr, "
    "!llvm.ptr\n"
    "  %p = llvm.load %b : !llvm.ptr -> !llvm.ptr\n"
    "  %c = llvm.getelementptr %to[%i] : (!llvm.ptr, i64) -> !llvm.ptr, "
    "!llvm.ptr\n"
    "  llvm.store %p, %c : !llvm.ptr, !llvm.ptr\n"
    "  %j = llvm.add %i, %one : i64\n"
    "  %more = llvm.icmp \"ult\" %j, %count : i64\n"
    "  llvm.cond_br %more, ^next(%j : i64), ^done\n"
    "^done:\n"
    "  llvm.return\n"
    "}\n"
    "llvm.func internal @nabla.multiply(%a: i64, %b: i64) -> i64 " HELPER
    " {\n"
    "  %r = \"llvm.intr.umul.with.overflow\"(%a, %b) : (i64, i64) -> "
    "!llvm.struct<(i64, i1)>\n"
    "  %v = llvm.extractvalue %r[0] : !llvm.struct<(i64, i1)>\n"
    "  %wraps = llvm.extractvalue %r[1] : !llvm.struct<(i64, i1)>\n"
    "  %most = llvm.mlir.constant(-1 : i64) : i64\n"
    "  %c = llvm.select %wraps, %most, %v : i1, i64\n"
    "  llvm.return %c : i64\n"
    "}\n"
    "llvm.func internal @nabla.add(%a: i64, %b: i64) -> i64 " HELPER
    " {\n"
    "  %c = llvm.intr.uadd.sat(%a, %b) : (i64, i64) -> i64\n"
    "  llvm.return %c : i64\n"
    "}\n";

#undef HELPER
#undef MEMBER

#endif
