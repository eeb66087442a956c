// Loops of elementwise operations hold at most 64 of the program; up to 64 are
// one loop, as upstream fuses them.
// RUN: nabla-opt "%s" --pass-pipeline="builtin.module(nabla-to-linalg,nabla-lower-switch,nabla-outs-to-ins,func.func(convert-elementwise-to-linalg),nabla-resolve-dims,nabla-fuse-large,func.func(linalg-fuse-elementwise-ops,nabla-fuse-large-end,canonicalize,cse))" --mlir-print-ir-after=nabla-fuse-large-end --mlir-disable-threading 2>&1 >/dev/null | FileCheck "%s"

!t = tensor<4x8xf32>
!d = tensor<?x8xf32>

// CHECK-LABEL: func.func @whole
// CHECK: linalg.generic
// CHECK-COUNT-64: arith.{{add|mul|sub}}f
// CHECK-NOT: arith.{{add|mul|sub}}f
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @whole(%x: !t, %y: !t) -> !t {
  %v0 = nabla.add %x, %x : !t, !t
  %v1 = nabla.mul %v0, %y : !t, !t
  %v2 = nabla.mul %v1, %y : !t, !t
  %v3 = nabla.mul %v2, %y : !t, !t
  %v4 = nabla.sub %v3, %x : !t, !t
  %v5 = nabla.sub %v4, %x : !t, !t
  %v6 = nabla.sub %v5, %x : !t, !t
  %v7 = nabla.add %v6, %y : !t, !t
  %v8 = nabla.add %v7, %y : !t, !t
  %v9 = nabla.add %v8, %y : !t, !t
  %v10 = nabla.mul %v9, %x : !t, !t
  %v11 = nabla.mul %v10, %x : !t, !t
  %v12 = nabla.mul %v11, %x : !t, !t
  %v13 = nabla.sub %v12, %y : !t, !t
  %v14 = nabla.add %v13, %y : !t, !t
  %v15 = nabla.sub %v14, %y : !t, !t
  %v16 = nabla.add %v15, %x : !t, !t
  %v17 = nabla.add %v16, %x : !t, !t
  %v18 = nabla.add %v17, %x : !t, !t
  %v19 = nabla.mul %v18, %y : !t, !t
  %v20 = nabla.mul %v19, %y : !t, !t
  %v21 = nabla.add %v20, %y : !t, !t
  %v22 = nabla.sub %v21, %x : !t, !t
  %v23 = nabla.sub %v22, %x : !t, !t
  %v24 = nabla.sub %v23, %x : !t, !t
  %v25 = nabla.add %v24, %y : !t, !t
  %v26 = nabla.add %v25, %y : !t, !t
  %v27 = nabla.add %v26, %y : !t, !t
  %v28 = nabla.add %v27, %x : !t, !t
  %v29 = nabla.mul %v28, %x : !t, !t
  %v30 = nabla.mul %v29, %x : !t, !t
  %v31 = nabla.sub %v30, %y : !t, !t
  %v32 = nabla.sub %v31, %y : !t, !t
  %v33 = nabla.sub %v32, %y : !t, !t
  %v34 = nabla.add %v33, %x : !t, !t
  %v35 = nabla.add %v34, %x : !t, !t
  %v36 = nabla.add %v35, %x : !t, !t
  %v37 = nabla.mul %v36, %y : !t, !t
  %v38 = nabla.mul %v37, %y : !t, !t
  %v39 = nabla.mul %v38, %y : !t, !t
  %v40 = nabla.sub %v39, %x : !t, !t
  %v41 = nabla.sub %v40, %x : !t, !t
  %v42 = nabla.add %v41, %x : !t, !t
  %v43 = nabla.add %v42, %y : !t, !t
  %v44 = nabla.add %v43, %y : !t, !t
  %v45 = nabla.add %v44, %y : !t, !t
  %v46 = nabla.mul %v45, %x : !t, !t
  %v47 = nabla.mul %v46, %x : !t, !t
  %v48 = nabla.mul %v47, %x : !t, !t
  %v49 = nabla.add %v48, %y : !t, !t
  %v50 = nabla.sub %v49, %y : !t, !t
  %v51 = nabla.sub %v50, %y : !t, !t
  %v52 = nabla.add %v51, %x : !t, !t
  %v53 = nabla.add %v52, %x : !t, !t
  %v54 = nabla.add %v53, %x : !t, !t
  %v55 = nabla.mul %v54, %y : !t, !t
  %v56 = nabla.add %v55, %y : !t, !t
  %v57 = nabla.mul %v56, %y : !t, !t
  %v58 = nabla.sub %v57, %x : !t, !t
  %v59 = nabla.sub %v58, %x : !t, !t
  %v60 = nabla.sub %v59, %x : !t, !t
  %v61 = nabla.add %v60, %y : !t, !t
  %v62 = nabla.add %v61, %y : !t, !t
  %v63 = nabla.add %v62, %y : !t, !t
  return %v63 : !t
}

// CHECK-LABEL: func.func @halves
// CHECK: %[[A:.*]] = linalg.generic
// CHECK-COUNT-64: arith.{{add|mul|sub}}f
// CHECK-NOT: arith.{{add|mul|sub}}f
// CHECK: linalg.generic {{.*}} ins(%[[A]]
// CHECK: arith.{{add|mul|sub}}f
// CHECK-NOT: arith.{{add|mul|sub}}f
// CHECK-NOT: bufferization.dealloc_tensor
// CHECK: return
func.func @halves(%x: !t, %y: !t) -> !t {
  %v0 = nabla.add %x, %x : !t, !t
  %v1 = nabla.mul %v0, %y : !t, !t
  %v2 = nabla.mul %v1, %y : !t, !t
  %v3 = nabla.mul %v2, %y : !t, !t
  %v4 = nabla.sub %v3, %x : !t, !t
  %v5 = nabla.sub %v4, %x : !t, !t
  %v6 = nabla.sub %v5, %x : !t, !t
  %v7 = nabla.add %v6, %y : !t, !t
  %v8 = nabla.add %v7, %y : !t, !t
  %v9 = nabla.add %v8, %y : !t, !t
  %v10 = nabla.mul %v9, %x : !t, !t
  %v11 = nabla.mul %v10, %x : !t, !t
  %v12 = nabla.mul %v11, %x : !t, !t
  %v13 = nabla.sub %v12, %y : !t, !t
  %v14 = nabla.add %v13, %y : !t, !t
  %v15 = nabla.sub %v14, %y : !t, !t
  %v16 = nabla.add %v15, %x : !t, !t
  %v17 = nabla.add %v16, %x : !t, !t
  %v18 = nabla.add %v17, %x : !t, !t
  %v19 = nabla.mul %v18, %y : !t, !t
  %v20 = nabla.mul %v19, %y : !t, !t
  %v21 = nabla.add %v20, %y : !t, !t
  %v22 = nabla.sub %v21, %x : !t, !t
  %v23 = nabla.sub %v22, %x : !t, !t
  %v24 = nabla.sub %v23, %x : !t, !t
  %v25 = nabla.add %v24, %y : !t, !t
  %v26 = nabla.add %v25, %y : !t, !t
  %v27 = nabla.add %v26, %y : !t, !t
  %v28 = nabla.add %v27, %x : !t, !t
  %v29 = nabla.mul %v28, %x : !t, !t
  %v30 = nabla.mul %v29, %x : !t, !t
  %v31 = nabla.sub %v30, %y : !t, !t
  %v32 = nabla.sub %v31, %y : !t, !t
  %v33 = nabla.sub %v32, %y : !t, !t
  %v34 = nabla.add %v33, %x : !t, !t
  %v35 = nabla.add %v34, %x : !t, !t
  %v36 = nabla.add %v35, %x : !t, !t
  %v37 = nabla.mul %v36, %y : !t, !t
  %v38 = nabla.mul %v37, %y : !t, !t
  %v39 = nabla.mul %v38, %y : !t, !t
  %v40 = nabla.sub %v39, %x : !t, !t
  %v41 = nabla.sub %v40, %x : !t, !t
  %v42 = nabla.add %v41, %x : !t, !t
  %v43 = nabla.add %v42, %y : !t, !t
  %v44 = nabla.add %v43, %y : !t, !t
  %v45 = nabla.add %v44, %y : !t, !t
  %v46 = nabla.mul %v45, %x : !t, !t
  %v47 = nabla.mul %v46, %x : !t, !t
  %v48 = nabla.mul %v47, %x : !t, !t
  %v49 = nabla.add %v48, %y : !t, !t
  %v50 = nabla.sub %v49, %y : !t, !t
  %v51 = nabla.sub %v50, %y : !t, !t
  %v52 = nabla.add %v51, %x : !t, !t
  %v53 = nabla.add %v52, %x : !t, !t
  %v54 = nabla.add %v53, %x : !t, !t
  %v55 = nabla.mul %v54, %y : !t, !t
  %v56 = nabla.add %v55, %y : !t, !t
  %v57 = nabla.mul %v56, %y : !t, !t
  %v58 = nabla.sub %v57, %x : !t, !t
  %v59 = nabla.sub %v58, %x : !t, !t
  %v60 = nabla.sub %v59, %x : !t, !t
  %v61 = nabla.add %v60, %y : !t, !t
  %v62 = nabla.add %v61, %y : !t, !t
  %v63 = nabla.add %v62, %y : !t, !t
  %v64 = nabla.mul %v63, %x : !t, !t
  return %v64 : !t
}

// Used by two loops: a result of the first, computed once. Sizes that are not
// known are those of what the chain begins with.
// CHECK-LABEL: func.func @kept
// CHECK: %[[A:.*]]:2 = linalg.generic
// CHECK-COUNT-64: arith.{{add|mul|sub}}f
// CHECK-NOT: arith.{{add|mul|sub}}f
// CHECK: linalg.generic {{.*}} ins(%[[A]]#{{.*}}%[[A]]#
// CHECK-COUNT-6: arith.{{add|mul|sub}}f
// CHECK-NOT: arith.{{add|mul|sub}}f
// CHECK: return
func.func @kept(%x: !d, %y: !d) -> !d {
  %v0 = nabla.add %x, %x : !d, !d
  %v1 = nabla.mul %v0, %y : !d, !d
  %v2 = nabla.mul %v1, %y : !d, !d
  %v3 = nabla.mul %v2, %y : !d, !d
  %v4 = nabla.sub %v3, %x : !d, !d
  %v5 = nabla.sub %v4, %x : !d, !d
  %v6 = nabla.sub %v5, %x : !d, !d
  %v7 = nabla.add %v6, %y : !d, !d
  %v8 = nabla.add %v7, %y : !d, !d
  %v9 = nabla.add %v8, %y : !d, !d
  %v10 = nabla.mul %v9, %x : !d, !d
  %v11 = nabla.mul %v10, %x : !d, !d
  %v12 = nabla.mul %v11, %x : !d, !d
  %v13 = nabla.sub %v12, %y : !d, !d
  %v14 = nabla.add %v13, %y : !d, !d
  %v15 = nabla.sub %v14, %y : !d, !d
  %v16 = nabla.add %v15, %x : !d, !d
  %v17 = nabla.add %v16, %x : !d, !d
  %v18 = nabla.add %v17, %x : !d, !d
  %v19 = nabla.mul %v18, %y : !d, !d
  %v20 = nabla.mul %v19, %y : !d, !d
  %v21 = nabla.add %v20, %y : !d, !d
  %v22 = nabla.sub %v21, %x : !d, !d
  %v23 = nabla.sub %v22, %x : !d, !d
  %v24 = nabla.sub %v23, %x : !d, !d
  %v25 = nabla.add %v24, %y : !d, !d
  %v26 = nabla.add %v25, %y : !d, !d
  %v27 = nabla.add %v26, %y : !d, !d
  %v28 = nabla.add %v27, %x : !d, !d
  %v29 = nabla.mul %v28, %x : !d, !d
  %v30 = nabla.mul %v29, %x : !d, !d
  %v31 = nabla.sub %v30, %y : !d, !d
  %v32 = nabla.sub %v31, %y : !d, !d
  %v33 = nabla.sub %v32, %y : !d, !d
  %v34 = nabla.add %v33, %x : !d, !d
  %v35 = nabla.add %v34, %x : !d, !d
  %v36 = nabla.add %v35, %x : !d, !d
  %v37 = nabla.mul %v36, %y : !d, !d
  %v38 = nabla.mul %v37, %y : !d, !d
  %v39 = nabla.mul %v38, %y : !d, !d
  %v40 = nabla.sub %v39, %x : !d, !d
  %v41 = nabla.sub %v40, %x : !d, !d
  %v42 = nabla.add %v41, %x : !d, !d
  %v43 = nabla.add %v42, %y : !d, !d
  %v44 = nabla.add %v43, %y : !d, !d
  %v45 = nabla.add %v44, %y : !d, !d
  %v46 = nabla.mul %v45, %x : !d, !d
  %v47 = nabla.mul %v46, %x : !d, !d
  %v48 = nabla.mul %v47, %x : !d, !d
  %v49 = nabla.add %v48, %y : !d, !d
  %v50 = nabla.sub %v49, %y : !d, !d
  %v51 = nabla.sub %v50, %y : !d, !d
  %v52 = nabla.add %v51, %x : !d, !d
  %v53 = nabla.add %v52, %x : !d, !d
  %v54 = nabla.add %v53, %x : !d, !d
  %v55 = nabla.mul %v54, %y : !d, !d
  %v56 = nabla.add %v55, %y : !d, !d
  %v57 = nabla.mul %v56, %y : !d, !d
  %v58 = nabla.sub %v57, %x : !d, !d
  %v59 = nabla.sub %v58, %x : !d, !d
  %v60 = nabla.sub %v59, %x : !d, !d
  %v61 = nabla.add %v60, %y : !d, !d
  %v62 = nabla.add %v61, %y : !d, !d
  %v63 = nabla.add %v62, %y : !d, !d
  %v64 = nabla.mul %v63, %x : !d, !d
  %v65 = nabla.mul %v64, %x : !d, !d
  %v66 = nabla.mul %v65, %x : !d, !d
  %v67 = nabla.sub %v66, %y : !d, !d
  %v68 = nabla.sub %v67, %y : !d, !d
  %v69 = nabla.sub %v68, %v10 : !d, !d
  return %v69 : !d
}
