// RUN: moec compile %s --arch=sm_90a --max-tokens=4 --emit=cuda | FileCheck %s
// RUN: rm -rf %t && moec compile %s --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=MANIFEST < %t/manifest.json
// RUN: sed "s/residual/defer_moe_finalize, batch_invariant/" %s > %t.mlir
// RUN: rm -rf %t && moec compile %t.mlir --arch=sm_90a --max-tokens=64 --no-cubin -o %t && FileCheck %s --check-prefix=DEFERRED < %t/manifest.json
// RUN: sed "s/residual/is_lora_enabled/" %s > %t.lora.mlir && moec compile %t.lora.mlir --arch=sm_90a --max-tokens=4 --emit=cuda | FileCheck %s --check-prefix=ADAPTERS

// What adapters give is an argument of both kernels of few tokens.
// ADAPTERS: ---- sm_90a/up_to_4_down_combine.cu
// ADAPTERS: moe::bf16 *out;
// ADAPTERS-NEXT: const moe::bf16 *addend;
// ADAPTERS: ---- sm_90a/up_to_4_route_gate_up.cu
// ADAPTERS: const moe::bf16 *addend;
// ADAPTERS-NEXT: moe::bf16 *result;

// A residual is an argument of whatever kernel rounds the output.
// CHECK: ---- sm_90a/up_to_4_down_combine.cu
// CHECK: moe::bf16 *out;
// CHECK-NEXT: const moe::bf16 *residual;

// MANIFEST: "name": "residual",
// MANIFEST-NEXT: "role": "optional_input",
// MANIFEST: "residual": "residual"

// The rows of all pairs are outputs, nothing combines them, and one variant
// serves all token counts.
// DEFERRED-NOT: "op": "combine"
// DEFERRED: "name": "partials", "role": "output", "element_types": ["bf16"], "shape": ["rows", 96]
// DEFERRED: "name": "positions", "role": "output", "element_types": ["i32"], "shape": ["tokens", 2]
// DEFERRED-NOT: "op": "combine"
// DEFERRED: "min_tokens": 1,
// DEFERRED: "max_tokens": 64,
// DEFERRED-NOT: "min_tokens"
// DEFERRED: engine 'gemv' does not do option 'batch_invariant'

moe.layer @options {num_experts = 8, top_k = 2, hidden_size = 96, intermediate_size = 176,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, residual,
  routing = #moe.routing<renormalize_naive>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
