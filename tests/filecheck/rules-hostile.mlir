// Files of rules that are wrong, hostile or endless: each is refused with a
// sentence that names the file and the line, or the rule and the program's.
// RUN: split-file "%s" "%t"
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/loop.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=LOOP
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/grow.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=GROW
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/noop.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=NOOP
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/native.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=NATIVE
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/nativeargs.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=NATIVEARGS
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/nativeres.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=NATIVERES
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/nativefail.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=NATIVEFAIL
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/type.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=TYPE
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/erase.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=ERASE
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/badop.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=BADOP
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/other.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=OTHER
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/invalid.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=INVALID
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/noinfer.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=NOINFER
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/inferfail.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=INFERFAIL
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/wrongattr.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=WRONGATTR
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/region.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=REGION
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/ret.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=RET
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/result9.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=RESULT9
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/count.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=COUNT
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/external.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=EXTERNAL
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/noroot.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=NOROOT
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/anyroot.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=ANYROOT
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/otherroot.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=OTHERROOT
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/func.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=FUNC
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/twice.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=TWICE
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/sameid.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=SAMEID
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/cut.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=CUT
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/unbound.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=UNBOUND
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/unboundtype.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=UNBOUNDTYPE
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/operands.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=OPERANDS
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/fewoperands.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=FEWOPERANDS
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/again.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=AGAIN
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/another.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=ANOTHER
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/itself.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=ITSELF
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/own.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=OWN
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/upstream.rules" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=UPSTREAM
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/missing" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=MISSING
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t" -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=FOLDER
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules /dev/null -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=DEVICE
// MISSING: missing:1:1: error: rules cannot be read: cannot open
// FOLDER: error: rules cannot be read: this is a folder, not a regular file
// DEVICE: error: rules cannot be read:

//--- program.mlir
!w = !nabla.implicit<4x16xf32, #nabla.nf4<block = 16>>
func.func @g(%w: !w) -> tensor<4x16xf32> {
  %y = nabla.relu %w : !w
  return %y : tensor<4x16xf32>
}
// LOOP: program.mlir:3:8: error: rule 'r' of {{.*}}loop.rules: does not come to an end: what it builds is rewritten again (here after rule 'back'), 33 rewrites in all
//--- loop.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.silu"(%x : !pdl.value) -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}
pdl.pattern @back : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.silu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}

// GROW: program.mlir:3:8: error: rule 'r' of {{.*}}grow.rules: does not come to an end: what it builds is rewritten again (here after rule 'r'), 273 rewrites in all
//--- grow.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %a = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
    %av = pdl.result 0 of %a
    %b = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
    %bv = pdl.result 0 of %b
    %n = pdl.operation "nabla.add"(%av, %bv : !pdl.value, !pdl.value) -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}

// NOOP: program.mlir:3:8: error: rule 'r' of {{.*}}noop.rules: does not come to an end: what it builds is rewritten again (here after rule 'r'), 33 rewrites in all
//--- noop.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root { %z = pdl.attribute = 1 : i64 }
}

// NATIVE: native.rules:5:3: error: 'pdl.apply_native_constraint' op there is no native constraint 'nosuch'; there are nabla.is_implicit, nabla.is_dense, nabla.has_encoding, nabla.is_whole
//--- native.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.apply_native_constraint "nosuch"(%t : !pdl.type)
  pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }
}

// NATIVEARGS: nativeargs.rules:5:3: error: 'pdl.apply_native_constraint' op 'nabla.is_implicit' is applied to (v) and gives (); it takes (t) and gives (): t is a type, v a value, a an attribute
//--- nativeargs.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.apply_native_constraint "nabla.is_implicit"(%x : !pdl.value)
  pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }
}

// NATIVERES: nativeres.rules:6:10: error: 'pdl.apply_native_rewrite' op 'nabla.dense_type' is applied to (t) and gives (o); it takes (t) and gives (t): t is a type, v a value, a an attribute
//--- nativeres.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %o = pdl.apply_native_rewrite "nabla.dense_type"(%t : !pdl.type) : !pdl.operation
    pdl.replace %root with %o }
}


// NATIVEFAIL: program.mlir:3:8: error: rule 'r' of {{.*}}nativefail.rules: failed while it built
//--- nativefail.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %e = pdl.apply_native_rewrite "nabla.encoding"(%t : !pdl.type) : !pdl.attribute
    %n = pdl.operation "nabla.abs"(%x : !pdl.value) {"a" = %e}
    pdl.replace %root with %n
  }
}

// TYPE: program.mlir:3:8: error: rule 'r' of {{.*}}type.rules: replaces a result by a value of another type
//--- type.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }
}

// ERASE: erase.rules:5:23: error: 'pdl.erase' op in rule 'r' erases what may have users: pdl.replace the operation; those without users are removed anyway
//--- erase.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root { pdl.erase %root }
}

// BADOP: badop.rules:6:10: error: 'pdl.operation' op there is no operation 'nabla.nosuch'
//--- badop.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.nosuch"(%x : !pdl.value) -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}

// OTHER: other.rules:6:10: error: 'pdl.operation' op does not infer the types of its results: give them, -> (%t : !pdl.type)
//--- other.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "tensor.cast"(%x : !pdl.value)
    pdl.replace %root with %n
  }
}

// INVALID: program.mlir:3:8: error: 'nabla.transpose' op requires attribute 'permutation'
// INVALID: program.mlir:3:8: error: rule 'r' of {{.*}}invalid.rules: built an operation that is not valid
//--- invalid.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.transpose"(%x : !pdl.value) -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}

// NOINFER: program.mlir:3:8: error: 'nabla.transpose' op permutation must name each of the 2 dimensions once
// NOINFER: program.mlir:3:8: error: rule 'r' of {{.*}}noinfer.rules: failed while it built
//--- noinfer.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.transpose"(%x : !pdl.value)
    pdl.replace %root with %n
  }
}

// INFERFAIL: program.mlir:3:8: error: 'nabla.reduce' op dims are distinct and less than the rank, 2
// INFERFAIL: program.mlir:3:8: error: rule 'r' of {{.*}}inferfail.rules: failed while it built
//--- inferfail.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %a = pdl.attribute = array<i64: 77>
    %n = pdl.operation "nabla.reduce"(%x : !pdl.value) {"dims" = %a}
    pdl.replace %root with %n
  }
}

// WRONGATTR: program.mlir:3:8: error: 'nabla.reduce' op requires attribute 'dims'
// WRONGATTR: program.mlir:3:8: error: rule 'r' of {{.*}}wrongattr.rules: built an operation that is not valid
//--- wrongattr.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %a = pdl.attribute = "hello"
    %n = pdl.operation "nabla.reduce"(%x : !pdl.value) {"dims" = %a, "kind" = %a} -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}

// REGION: program.mlir:3:8: error: 'nabla.scan' op requires one region
// REGION: program.mlir:3:8: error: rule 'r' of {{.*}}region.rules: built an operation that is not valid
//--- region.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.scan"(%x : !pdl.value) -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}

// RET: ret.rules:6:10: error: 'pdl.operation' op does not infer the types of its results: give them, -> (%t : !pdl.type)
//--- ret.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "func.return"(%x : !pdl.value)
    pdl.erase %root
  }
}

// RESULT9: result9.rules:7:10: error: 'pdl.result' op takes result 9 of an operation for which 1 type is given
//--- result9.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.abs"(%x : !pdl.value)
    %v = pdl.result 9 of %n
    pdl.replace %root with (%v : !pdl.value)
  }
}

// COUNT: program.mlir:3:8: error: rule 'r' of {{.*}}count.rules: replaces a result by a value of another type
//--- count.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.unpack"(%x : !pdl.value)
    pdl.replace %root with %n
  }
}

// EXTERNAL: external.rules:5:3: error: 'pdl.rewrite' op names a rewrite of its own: write its body as a block
//--- external.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root with "boom"
}

// NOROOT: noroot.rules:4:3: error: 'pdl.rewrite' op names no operation that is replaced: pdl.rewrite %root { ... }
//--- noroot.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %root = pdl.operation (%x : !pdl.value)
  pdl.rewrite { pdl.erase %root }
}

// ANYROOT: anyroot.rules:4:23: error: 'pdl.erase' op in rule 'r' erases what may have users: pdl.replace the operation; those without users are removed anyway
//--- anyroot.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %root = pdl.operation (%x : !pdl.value)
  pdl.rewrite %root { pdl.erase %root }
}

// OTHERROOT: otherroot.rules:3:23: error: 'pdl.erase' op in rule 'r' erases what may have users: pdl.replace the operation; those without users are removed anyway
//--- otherroot.rules
pdl.pattern @r : benefit(1) {
  %root = pdl.operation "func.return"
  pdl.rewrite %root { pdl.erase %root }
}

// FUNC: func.rules:1:1: error: 'func.func' op stands among rules: only pdl.pattern may
//--- func.rules
func.func private @f()

// TWICE: twice.rules:7:1: error: redefinition of symbol named 'r'
// TWICE: twice.rules:1:1: error: the rules do not parse or verify
//--- twice.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }
}
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }
}

// SAMEID: sameid.rules:1:1: error: 'pdl.pattern' op there is a rule 'dot_packed_rhs' already: rename it
//--- sameid.rules
pdl.pattern @dot_packed_rhs : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    pdl.replace %root with (%x : !pdl.value)
  }
}

// UNBOUND: unbound.rules:3:8: error: 'pdl.type' op is used but has no value when the rule is applied: no operation of the pattern names it as an operand, an attribute or a type of its results, -> (%t : !pdl.type)
//--- unbound.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
    pdl.replace %root with %n
  }
}

// UNBOUNDTYPE: unboundtype.rules:2:8: error: 'pdl.type' op is used but has no value
//--- unboundtype.rules
pdl.pattern @r : benefit(1) {
  %w = pdl.type
  pdl.apply_native_constraint "nabla.is_implicit"(%w : !pdl.type)
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }
}

// OPERANDS: program.mlir:3:8: error: 'nabla.add' op takes more than 1 operand
// OPERANDS: program.mlir:3:8: error: rule 'r' of {{.*}}operands.rules: failed while it built
//--- operands.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.add"(%x : !pdl.value)
    pdl.replace %root with %n
  }
}

// FEWOPERANDS: program.mlir:3:8: error: 'nabla.linear' op takes more than 1 operand
//--- fewoperands.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.linear"(%x : !pdl.value)
    pdl.replace %root with %n
  }
}

// AGAIN: again.rules:7:5: error: 'pdl.replace' op is not the last operation of the rewrite
//--- again.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.abs"(%x : !pdl.value)
    pdl.replace %root with %n
    pdl.replace %root with %n
  }
}

// ANOTHER: another.rules:7:5: error: 'pdl.replace' op replaces another operation than pdl.rewrite names: the others are removed when nothing uses their results
//--- another.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.abs"(%x : !pdl.value)
    pdl.replace %n with %root
  }
}

// ITSELF: itself.rules:6:5: error: 'pdl.replace' op replaces an operation by itself
//--- itself.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    pdl.replace %root with %root
  }
}

// OWN: own.rules:6:10: error: 'pdl.result' op takes a result of the operation that is replaced
//--- own.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %v = pdl.result 0 of %root
    %n = pdl.operation "nabla.abs"(%v : !pdl.value)
    pdl.replace %root with %n
  }
}

// UPSTREAM: upstream.rules:6:10: error: 'pdl.operation' op does not infer the types of its results: give them, -> (%t : !pdl.type)
//--- upstream.rules
pdl.pattern @r : benefit(1) {
  %x = pdl.operand
  %t = pdl.type
  %root = pdl.operation "nabla.relu"(%x : !pdl.value) -> (%t : !pdl.type)
  pdl.rewrite %root {
    %n = pdl.operation "nabla.broadcast"
    pdl.replace %root with %n
  }
}

// CUT: cut.rules:1:30: error: expected operation name in quotes
// CUT: cut.rules:1:1: error: the rules do not parse or verify
//--- cut.rules
pdl.pattern @r : benefit(1) {
