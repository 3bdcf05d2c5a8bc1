// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: moec-check %t --device=host --check --tokens=1,40

// Rows that alternate as stored are a policy of whatever reads the bias; the
// numbers that every expert has of its own are arguments, and those that it has
// not are the layer's.
// CHECK: ---- sm_90a/up_to_4_route_gate_up.cu
// CHECK: const moe::bf16 *bias;
// CHECK-NEXT: const float *activation_alpha;
// CHECK-NEXT: const float *activation_beta;
// CHECK-NEXT: const float *activation_limit;
// CHECK-NEXT: moe::bf16 *result;
// CHECK: struct Numbers {
// CHECK-NEXT: static constexpr float kAlpha = 0x1.b3b646p+0f;
// CHECK-NEXT: static constexpr float kBeta = 0x1p+0f;
// CHECK-NEXT: static constexpr float kLinearBeta = 0x0p+0f;
// CHECK-NEXT: static constexpr float kLimit = 0x1.cp+2f;
// CHECK: using Activation = moe::activation::Swiglu<moe::activation::OfExpert<Numbers>>;
// CHECK: using GateUpOrder = moe::Alternating<1>;
// CHECK: moe::packInterleave
// MANIFEST: "gate_up_order": "interleaved"
// MANIFEST: "name": "activation_limit", "role": "stored_weight",
moe.layer @numbers {num_experts = 8, top_k = 2, hidden_size = 96, intermediate_size = 176,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, has_bias, gate_up_order = "interleaved",
  routing = #moe.routing<renormalize>, activation = #moe.activation<swigluoai, per_expert>, parallel = #moe.parallel<>}
