// RUN: moec compile %s --arch=sm_90a --max-tokens=64 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t
// RUN: moec-check %t --device=host --check --tokens=1,40

// A bias chooses among logits, and weights are sigmoids of the logits alone.
// CHECK: const float *routing_bias;
// CHECK: using Score = moe::routing::Identity;
// CHECK-NEXT: using Select = moe::routing::TopK;
// CHECK-NEXT: using Normalize = moe::routing::SigmoidSelected;
// CHECK-NEXT: static constexpr bool kRoutingBias = true;
moe.layer @kolibri {num_experts = 64, top_k = 6, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>,
  routing = #moe.routing<topk_sigmoid_bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
