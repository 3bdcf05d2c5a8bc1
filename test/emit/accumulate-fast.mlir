// RUN: moec compile %s --arch=sm_90a --max-tokens=4096 --emit=cuda | FileCheck %s
// RUN: moec compile %s --arch=sm_89 --max-tokens=64 --emit=cuda | FileCheck %s --check-prefix=OTHER
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: not moec compile %s --arch=sm_90a --accumulate=f32 --emit=cuda 2>&1 | FileCheck %s --check-prefix=TWICE

// Sums of e4m3 may stay in the tensor cores over all of k: an engine that can do
// so is told, and has room for larger tiles; others add in f32 as ever.

// CHECK: ---- sm_90a/up_to_4096_gate_up.cu
// CHECK: using Quant = moe::quant::Fp8Channel;
// CHECK: using Mma = moe::mma::Wgmma<moe::e4m3, true>;
// CHECK: static constexpr int kTileM = 192;
// OTHER: using Mma = moe::mma::MmaSync<moe::e4m3, true, true>;
// MANIFEST: "accumulate": "fast"
// TWICE: expected no --accumulate with a .mlir input, whose moe.layer specifies it

moe.layer @fast {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, accumulate = "fast",
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
