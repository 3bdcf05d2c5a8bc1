// RUN: moec compile %s --arch=sm_90a --max-tokens=100 --emit=cuda | FileCheck %s
// RUN: moec compile %s --arch=sm_80 --max-tokens=100 --emit=cuda | FileCheck %s --check-prefix=ALONE
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=100 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// A cluster of 8 CTAs routes and permutes an even share of the tokens each,
// where the architecture has clusters; else one CTA all of them.

// CHECK: ---- sm_90a/{{.*}}route_permute.cu
// CHECK: kThreads = 512;
// CHECK: kBlockTokens = 13;
// CHECK-NEXT: static constexpr int kMostBlocks = 0;
// CHECK-NEXT: static constexpr bool kPermute = true;
// CHECK-NEXT: static constexpr int kCluster = 8;

// ALONE: ---- sm_80/{{.*}}route_permute.cu
// ALONE: kThreads = 1024;
// ALONE: kBlockTokens = 100;
// ALONE-NEXT: static constexpr int kMostBlocks = 0;
// ALONE-NEXT: static constexpr bool kPermute = true;
// ALONE-NEXT: static constexpr int kCluster = 1;

// MANIFEST: "cluster": [8, 1, 1],

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
