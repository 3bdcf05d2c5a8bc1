// RUN: moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// Without a gate nothing is interleaved, so nothing is packed.

// CHECK: using Activation = moe::activation::Ungated<moe::activation::GeluTanh>;
// CHECK-NEXT: using Mma = moe::mma::MmaSync<moe::f16>;
// CHECK: static constexpr int kN = 32;
// CHECK: static constexpr int kInterleave = 0;
// CHECK-NOT: pack.cuh
// MANIFEST: "pack": []

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = f16, out_dtype = f16, router_logits_dtype = f16, quant = #moe.quant<f16>,
  routing = #moe.routing<topk>, activation = #moe.activation<gelu_tanh_no_mul>, parallel = #moe.parallel<>}
