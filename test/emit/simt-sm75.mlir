// RUN: moec compile %s --arch=sm_75 --max-tokens=64 --emit=cuda | FileCheck %s

// An arch without mma_sync and cp.async: the simt engine, plain loads, and the
// bf16 of the layer all the same.

// CHECK: using Mma = moe::mma::Simt<moe::bf16>;
// CHECK-NOT: kCpAsync = true
// CHECK-NOT: kProgrammatic = true

moe.layer @tiny {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
