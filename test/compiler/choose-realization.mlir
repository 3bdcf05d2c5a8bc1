// RUN: moec-opt --moe-resolve-parallel --moe-choose-realization=arch=sm_90a %s | FileCheck %s
// RUN: moec-opt --moe-resolve-parallel --moe-choose-realization=arch=sm_90a --moe-choose-realization=arch=sm_80 %s | FileCheck %s
// RUN: moec-opt --moe-resolve-parallel --moe-choose-realization="arch=sm_90a allow=weight_only" %s | FileCheck %s --check-prefix=ALLOWED
// RUN: moec-opt --moe-resolve-parallel --moe-choose-realization="arch=sm_90a,sm_80 exclude=emulated" %s | FileCheck %s --check-prefix=NONE
// RUN: not moec-opt --moe-resolve-parallel --moe-choose-realization="arch=sm_90a allow=native" %s 2>&1 | FileCheck %s --check-prefix=REFUSED

// The first realization that each target serves; the last one where none is
// served, which moe-choose-backend refuses. Schemes with one are left alone.

// REFUSED: allow: expected weight_only, the one realization that is another layer, got 'native'

// CHECK-LABEL: moe.layer @nvfp4
// CHECK: quant = #moe.quant<nvfp4>
// CHECK: realization = "emulated"
// CHECK-NOT: stored_quant
// ALLOWED-LABEL: moe.layer @nvfp4
// ALLOWED: quant = #moe.quant<nvfp4_w4a16>
// ALLOWED: realization = "weight_only"
// ALLOWED: stored_quant = #moe.quant<nvfp4>
// NONE-LABEL: moe.layer @nvfp4
// NONE: realization = "emulated"
moe.layer @nvfp4 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @codes
// CHECK: realization = "native"
// ALLOWED-LABEL: moe.layer @codes
// ALLOWED: quant = #moe.quant<mxfp4_fp8>
// ALLOWED: realization = "native"
// NONE-LABEL: moe.layer @codes
// NONE: realization = "emulated"
moe.layer @codes {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_fp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// The type of activations is the input's of 16 bits.

// ALLOWED-LABEL: moe.layer @half
// ALLOWED: quant = #moe.quant<a1 = <f16>, a2 = <f16>, w1 = <f4E2M1FN,
// ALLOWED: realization = "weight_only"
moe.layer @half {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = f16, out_dtype = f16, router_logits_dtype = f16, quant = #moe.quant<nvfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @bf16
// CHECK-NOT: realization
moe.layer @bf16 {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
