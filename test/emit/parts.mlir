// RUN: moec compile %s --arch=sm_90a --max-tokens=100 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=100 --no-cubin -o %t
// RUN: FileCheck %s --check-prefix=MANIFEST < %t/manifest.json

// The rank's first expert says which rows have positions. Nothing is counted,
// and the caller sees neither ids nor weights.

// CHECK: ---- sm_90a/up_to_100_combine.cu
// CHECK: const moe::bf16 *partials;
// CHECK-NEXT: const int *positions;
// CHECK-NEXT: const float *topk_weights;
// CHECK: using Partial = moe::bf16;
// CHECK: kPairs = 2;
// CHECK-NEXT: static constexpr int kHidden = 64;

// CHECK: ---- sm_90a/up_to_100_route.cu
// CHECK: const void *given_ids;
// CHECK-NEXT: moe::ElementCode given_ids_type;
// CHECK-NEXT: const void *given_weights;
// CHECK-NEXT: moe::ElementCode given_weights_type;
// CHECK-NEXT: const int *valid_tokens;
// CHECK-NEXT: int tokens;
// CHECK-NEXT: int local_begin;
// CHECK-NEXT: int *topk_ids;
// CHECK-NEXT: float *topk_weights;
// CHECK-NEXT: int *positions;
// CHECK-NEXT: };
// CHECK: using Select = moe::routing::Given;
// CHECK: kPermute = false;
// CHECK: kLocalExperts = 4;
// CHECK: moec_route_pairs_bf16_16_

// MANIFEST: "part": "finalize",
// MANIFEST: {"name": "partials", "role": "input", "element_types": ["bf16"], "shape": ["tokens", 2, 64],
// MANIFEST: "op": "pair_rows",

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, part = "finalize",
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, ep>}
