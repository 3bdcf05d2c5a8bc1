// RUN: moec-opt %s -allow-unregistered-dialect -split-input-file -verify-diagnostics

// What only operations of other dialects can get wrong.

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
  // expected-error@+1 {{'moe.kernel' op must end in moe.yield}}
  moe.kernel @k kind = combine schedule #moe.block_schedule<threads = 128> fields ["x"] {
  ^bb0(%i: tensor<?x64xbf16>):
    "test.end"() : () -> ()
  }
}
