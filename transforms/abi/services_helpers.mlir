// Functions that nabla-lower-services puts into every program: calls through
// the table of nabla/services.h, inlined, then gone. nabla.failed says whether a
// call has failed, its own or one below; nabla.multiply gives 2^64 - 1 where the
// product, nabla.add where the sum, wraps.
llvm.func internal @nabla.fail(%s: !llvm.ptr, %code: i32, %where: !llvm.ptr, %a: i64, %b: i64) attributes {no_inline, nabla.helper} {
  %at = llvm.getelementptr inbounds %s[48] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr
  llvm.call %f(%s, %code, %where, %a, %b) : !llvm.ptr, (!llvm.ptr, i32, !llvm.ptr, i64, i64) -> ()
  llvm.return
}
llvm.func internal @nabla.failed(%s: !llvm.ptr) -> i1 attributes {always_inline, nabla.helper} {
  %at = llvm.getelementptr inbounds %s[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %p = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr
  %flag = llvm.load %p : !llvm.ptr -> i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %is = llvm.icmp "ne" %flag, %zero : i32
  llvm.return %is : i1
}
llvm.func internal @nabla.allocate(%s: !llvm.ptr, %size: i64) -> (!llvm.ptr {llvm.align = 64 : i64, llvm.noalias}) attributes {always_inline, nabla.helper} {
  %at = llvm.getelementptr inbounds %s[24] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr
  %p = llvm.call %f(%s, %size) : !llvm.ptr, (!llvm.ptr, i64) -> (!llvm.ptr {llvm.align = 64 : i64, llvm.noalias})
  %null = llvm.mlir.zero : !llvm.ptr
  %none = llvm.icmp "eq" %p, %null : !llvm.ptr
  llvm.cond_br %none weights([1, 1048575]), ^fail, ^done
^fail:
  %code = llvm.mlir.constant(1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  llvm.call @nabla.fail(%s, %code, %null, %size, %zero) : (!llvm.ptr, i32, !llvm.ptr, i64, i64) -> ()
  llvm.br ^done
^done:
  llvm.return %p : !llvm.ptr
}
llvm.func internal @nabla.release(%s: !llvm.ptr, %p: !llvm.ptr) attributes {always_inline, nabla.helper} {
  %at = llvm.getelementptr inbounds %s[32] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr
  llvm.call %f(%s, %p) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}
llvm.func internal @nabla.parallel(%s: !llvm.ptr, %kernel: !llvm.ptr, %words: !llvm.ptr, %count: i64, %grain: i64) attributes {always_inline, nabla.helper} {
  %at = llvm.getelementptr inbounds %s[40] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr
  llvm.call %f(%s, %kernel, %words, %count, %grain) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> ()
  llvm.return
}
llvm.func internal @nabla.call(%s: !llvm.ptr, %site: i64, %words: !llvm.ptr) attributes {always_inline, nabla.helper} {
  %at = llvm.getelementptr inbounds %s[56] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at invariant : !llvm.ptr -> !llvm.ptr
  llvm.call %f(%s, %site, %words) : !llvm.ptr, (!llvm.ptr, i64, !llvm.ptr) -> ()
  llvm.return
}
// Tables of older runtimes end before the member; it is null where nobody asks.
llvm.func internal @nabla.profile(%s: !llvm.ptr, %what: !llvm.ptr, %bytes: i64, %flops: i64) attributes {no_inline, nabla.helper} {
  %size_at = llvm.getelementptr inbounds %s[4] : (!llvm.ptr) -> !llvm.ptr, i8
  %size = llvm.load %size_at : !llvm.ptr -> i32
  %least = llvm.mlir.constant(72 : i32) : i32
  %has = llvm.icmp "uge" %size, %least : i32
  llvm.cond_br %has, ^look, ^done
^look:
  %at = llvm.getelementptr inbounds %s[64] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at : !llvm.ptr -> !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %is = llvm.icmp "ne" %f, %null : !llvm.ptr
  llvm.cond_br %is, ^call, ^done
^call:
  llvm.call %f(%s, %what, %bytes, %flops) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
  llvm.br ^done
^done:
  llvm.return
}
llvm.func internal @nabla.hold(%s: !llvm.ptr, %p: !llvm.ptr, %bytes: i64, %what: !llvm.ptr) attributes {no_inline, nabla.helper} {
  %size_at = llvm.getelementptr inbounds %s[4] : (!llvm.ptr) -> !llvm.ptr, i8
  %size = llvm.load %size_at : !llvm.ptr -> i32
  %least = llvm.mlir.constant(104 : i32) : i32
  %has = llvm.icmp "uge" %size, %least : i32
  llvm.cond_br %has, ^look, ^done
^look:
  %at = llvm.getelementptr inbounds %s[96] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at : !llvm.ptr -> !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %is = llvm.icmp "ne" %f, %null : !llvm.ptr
  llvm.cond_br %is, ^call, ^done
^call:
  llvm.call %f(%s, %p, %bytes, %what) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> ()
  llvm.br ^done
^done:
  llvm.return
}
llvm.func internal @nabla.result(%s: !llvm.ptr, %index: i64, %bytes: i64) -> (!llvm.ptr {llvm.align = 64 : i64, llvm.noalias}) attributes {no_inline, nabla.helper} {
  %null = llvm.mlir.zero : !llvm.ptr
  %size_at = llvm.getelementptr inbounds %s[4] : (!llvm.ptr) -> !llvm.ptr, i8
  %size = llvm.load %size_at : !llvm.ptr -> i32
  %least = llvm.mlir.constant(96 : i32) : i32
  %has = llvm.icmp "uge" %size, %least : i32
  llvm.cond_br %has, ^ask, ^allocate
^ask:
  %at = llvm.getelementptr inbounds %s[72] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at : !llvm.ptr -> !llvm.ptr
  %given = llvm.call %f(%s, %index, %bytes) : !llvm.ptr, (!llvm.ptr, i64, i64) -> !llvm.ptr
  %none = llvm.icmp "eq" %given, %null : !llvm.ptr
  llvm.cond_br %none weights([1, 1048575]), ^fail, ^done(%given : !llvm.ptr)
^fail:
  %code = llvm.mlir.constant(1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  llvm.call @nabla.fail(%s, %code, %null, %bytes, %zero) : (!llvm.ptr, i32, !llvm.ptr, i64, i64) -> ()
  llvm.br ^done(%null : !llvm.ptr)
^allocate:
  %own = llvm.call @nabla.allocate(%s, %bytes) : (!llvm.ptr, i64) -> !llvm.ptr
  llvm.br ^done(%own : !llvm.ptr)
^done(%p: !llvm.ptr):
  llvm.return %p : !llvm.ptr
}
// Parts of planned blocks. Calls that are not inlined are as allocation and
// release to LLVM, so that it knows that parts do not overlap, and moves no
// access to one beyond its end.
llvm.func internal @nabla.part_begin(%s: !llvm.ptr, %base: !llvm.ptr, %offset: i64, %bytes: i64) -> (!llvm.ptr {llvm.align = 64 : i64, llvm.noalias}) attributes {no_inline, nabla.helper} {
  %p = llvm.getelementptr inbounds %base[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %size_at = llvm.getelementptr inbounds %s[4] : (!llvm.ptr) -> !llvm.ptr, i8
  %size = llvm.load %size_at : !llvm.ptr -> i32
  %least = llvm.mlir.constant(96 : i32) : i32
  %has = llvm.icmp "uge" %size, %least : i32
  llvm.cond_br %has, ^look, ^done
^look:
  %at = llvm.getelementptr inbounds %s[80] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at : !llvm.ptr -> !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %is = llvm.icmp "ne" %f, %null : !llvm.ptr
  llvm.cond_br %is weights([1, 1048575]), ^call, ^done
^call:
  llvm.call %f(%s, %p, %bytes) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64) -> ()
  llvm.br ^done
^done:
  llvm.return %p : !llvm.ptr
}
llvm.func internal @nabla.part_end(%s: !llvm.ptr, %p: !llvm.ptr, %bytes: i64) attributes {no_inline, nabla.helper} {
  %size_at = llvm.getelementptr inbounds %s[4] : (!llvm.ptr) -> !llvm.ptr, i8
  %size = llvm.load %size_at : !llvm.ptr -> i32
  %least = llvm.mlir.constant(96 : i32) : i32
  %has = llvm.icmp "uge" %size, %least : i32
  llvm.cond_br %has, ^look, ^done
^look:
  %at = llvm.getelementptr inbounds %s[88] : (!llvm.ptr) -> !llvm.ptr, i8
  %f = llvm.load %at : !llvm.ptr -> !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %is = llvm.icmp "ne" %f, %null : !llvm.ptr
  llvm.cond_br %is weights([1, 1048575]), ^call, ^done
^call:
  llvm.call %f(%s, %p, %bytes) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64) -> ()
  llvm.br ^done
^done:
  llvm.return
}
// 2^46 bytes are the most of a block (transforms/memory/layout.h).
llvm.func internal @nabla.part_require(%s: !llvm.ptr, %bytes: i64) attributes {always_inline, nabla.helper} {
  %most = llvm.mlir.constant(70368744177664 : i64) : i64
  %is = llvm.icmp "ugt" %bytes, %most : i64
  llvm.cond_br %is weights([1, 1048575]), ^fail, ^done
^fail:
  %code = llvm.mlir.constant(1 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = llvm.mlir.constant(0 : i64) : i64
  llvm.call @nabla.fail(%s, %code, %null, %bytes, %zero) : (!llvm.ptr, i32, !llvm.ptr, i64, i64) -> ()
  llvm.br ^done
^done:
  llvm.return
}
llvm.func internal @nabla.require_equal(%s: !llvm.ptr, %a: i64, %b: i64, %where: !llvm.ptr) attributes {always_inline, nabla.helper} {
  %differ = llvm.icmp "ne" %a, %b : i64
  llvm.cond_br %differ weights([1, 1048575]), ^fail, ^done
^fail:
  %code = llvm.mlir.constant(2 : i32) : i32
  llvm.call @nabla.fail(%s, %code, %where, %a, %b) : (!llvm.ptr, i32, !llvm.ptr, i64, i64) -> ()
  llvm.br ^done
^done:
  llvm.return
}
llvm.func internal @nabla.require_divisors(%s: !llvm.ptr, %zeros: i64, %where: !llvm.ptr) attributes {always_inline, nabla.helper} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %bad = llvm.icmp "ne" %zeros, %zero : i64
  llvm.cond_br %bad weights([1, 1048575]), ^fail, ^done
^fail:
  %code = llvm.mlir.constant(3 : i32) : i32
  llvm.call @nabla.fail(%s, %code, %where, %zeros, %zero) : (!llvm.ptr, i32, !llvm.ptr, i64, i64) -> ()
  llvm.br ^done
^done:
  llvm.return
}
llvm.func internal @nabla.fill_table(%s: !llvm.ptr, %to: !llvm.ptr, %from: !llvm.ptr, %entries: !llvm.ptr, %count: i64) attributes {no_inline, nabla.helper} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^next(%zero : i64)
^next(%i: i64):
  %a = llvm.getelementptr %entries[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i32
  %entry = llvm.load %a : !llvm.ptr -> i32
  %at = llvm.sext %entry : i32 to i64
  %b = llvm.getelementptr %from[%at] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  %p = llvm.load %b : !llvm.ptr -> !llvm.ptr
  %c = llvm.getelementptr %to[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  llvm.store %p, %c : !llvm.ptr, !llvm.ptr
  %j = llvm.add %i, %one : i64
  %more = llvm.icmp "ult" %j, %count : i64
  llvm.cond_br %more, ^next(%j : i64), ^done
^done:
  llvm.return
}
llvm.func internal @nabla.multiply(%a: i64, %b: i64) -> i64 attributes {always_inline, nabla.helper} {
  %r = "llvm.intr.umul.with.overflow"(%a, %b) : (i64, i64) -> !llvm.struct<(i64, i1)>
  %v = llvm.extractvalue %r[0] : !llvm.struct<(i64, i1)>
  %wraps = llvm.extractvalue %r[1] : !llvm.struct<(i64, i1)>
  %most = llvm.mlir.constant(-1 : i64) : i64
  %c = llvm.select %wraps, %most, %v : i1, i64
  llvm.return %c : i64
}
llvm.func internal @nabla.add(%a: i64, %b: i64) -> i64 attributes {always_inline, nabla.helper} {
  %c = llvm.intr.uadd.sat(%a, %b) : (i64, i64) -> i64
  llvm.return %c : i64
}
