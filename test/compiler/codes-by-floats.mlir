// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-check-target{arch=sm_90a},moe-choose-realization{arch=sm_90a},moe-decompose-layer{arch=sm_90a},moe.program(moe-choose-backend))' | FileCheck %s
// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-choose-realization{arch=sm_90a engine=mma_sync},moe-decompose-layer{arch=sm_90a},moe.program(moe-choose-backend{engine=mma_sync}))' | FileCheck %s --check-prefix=EMULATED
// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-choose-realization{arch=sm_90a exclude=native},moe-decompose-layer{arch=sm_90a},moe.program(moe-choose-backend{exclude=native}))' | FileCheck %s --check-prefix=EMULATED
// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-choose-realization{arch=sm_90a,sm_80},moe-decompose-layer{arch=sm_90a,sm_80},moe.program(moe-choose-backend))' | FileCheck %s --check-prefix=EMULATED

// e4m3 holds each e2m1: an engine of sm_90a multiplies the codes of both. All
// targets of a package compute the same, so that sm_80 beside it, another engine
// or the option make activations emulated.

// CHECK-LABEL: moe.program @l_sm_90a
// CHECK-SAME: engine = wgmma_rs
// CHECK-SAME: engine 'mma_sync' converts weights of f4E2M1FN to f16 or bf16, not to f8E4M3FN
// CHECK: %[[X:.*]], %[[SCALE:.*]] = moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %x scale %a1_scale : {{.*}} -> {{.*}}tensor<?x256xf8E4M3FN>
// CHECK: moe.grouped_matmul realization = codes {{.*}}%[[X]]
// CHECK: moe.grouped_matmul realization = codes

// EMULATED-LABEL: moe.program @l_sm_90a
// EMULATED: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %x scale %a1_scale : {{.*}} -> tensor<?x256xbf16>
// EMULATED: moe.grouped_matmul realization = emulated
// EMULATED: moe.grouped_matmul realization = emulated
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_fp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Sizes that are no whole blocks leave no engine that does.

// CHECK-LABEL: moe.program @tail_sm_90a
// CHECK-SAME: realization = emulated
moe.layer @tail {num_experts = 8, top_k = 2, hidden_size = 320, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_fp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Activations with a scale per group of 128 are multiplied as codes, too.

// CHECK-LABEL: moe.program @groups_sm_90a
// CHECK-SAME: engine = wgmma_rs
// CHECK: moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %x : {{.*}} -> {{.*}}tensor<?x256xf8E4M3FN>, {{.*}}tensor<?x2xf32>
// CHECK: moe.grouped_matmul realization = codes
// CHECK: moe.grouped_matmul realization = codes

// EMULATED-LABEL: moe.program @groups_sm_90a
// EMULATED: moe.grouped_matmul realization = emulated
// EMULATED: moe.grouped_matmul realization = emulated
moe.layer @groups {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, a2 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Groups of another size are emulated.

// CHECK-LABEL: moe.program @finer_sm_90a
// CHECK-SAME: realization = emulated
moe.layer @finer {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [1, 64], scale = f32, dynamic>, a2 = <f8E4M3FN, group = [1, 64], scale = f32, dynamic>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
