// RUN: moec compile %s --arch=sm_90a --engine=mma_sync --max-tokens=64 --emit=cuda | FileCheck %s

// A bias is a field behind the weight, in the layer's type and stored order.

// CHECK: const moe::bf16 *rhs;
// CHECK-NEXT: const moe::bf16 *bias;
// CHECK-NEXT: {{.*}}*result;
// CHECK: static constexpr bool kBias = true;

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, has_bias}
