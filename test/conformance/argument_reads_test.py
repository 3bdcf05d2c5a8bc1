#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""argument_reads.py on PTX as NVRTC writes it."""

import unittest

import argument_reads

ARGUMENTS = {"bytes": 256, "fields": [{"name": "lhs", "offset": 0}, {"name": "stride", "offset": 8}, {"name": "tokens", "offset": 16},
                                      {"name": "rhs", "offset": 64}, {"name": "data", "offset": 192}, {"name": "scale", "offset": 200}]}
PTX = """
.visible .entry moec_kernel(
	.param .align 64 .b8 moec_kernel_param_0[256]
)
{
	ld.param.v2.u64 	{%rd1, %rd2}, [moec_kernel_param_0];
	mov.b64 	%rd15, moec_kernel_param_0;
	@%p1 ld.param.u32 	%r1, [%rd15+16];
	add.s64 	%rd17, %rd15, 64;
	cvta.param.u64 	%rd16, %rd17;
	// begin inline asm
	cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd16, {%r6, %r7}], [%r8];
	// end inline asm
	ld.param.v2.u64 	{%rd45, %rd46}, [%rd15+192];
	ret;
}
"""


class ArgumentReads(unittest.TestCase):
    def unread(self, old="", new=""):
        self.assertIn(old, PTX)
        return argument_reads.unread(PTX.replace(old, new, 1) if old else PTX, ARGUMENTS)

    def test_all(self):
        self.assertEqual(self.unread(), [])

    def test_narrower_load(self):
        self.assertEqual(self.unread("v2.u64 	{%rd1, %rd2}, [moec_kernel_param_0]", "u64 	%rd1, [moec_kernel_param_0]"), ["stride"])
        self.assertEqual(self.unread("v2.u64 	{%rd45, %rd46}, [%rd15+192]", "u64 	%rd46, [%rd15+200]"), ["data"])

    def test_guarded_load(self):
        self.assertEqual(self.unread("@%p1 ld.param.u32 	%r1, [%rd15+16];"), ["tokens"])

    def test_address(self):
        self.assertEqual(self.unread("cvta.param.u64 	%rd16, %rd17;"), ["rhs"])
        self.assertEqual(self.unread("cvta.param.u64 	%rd16, %rd17;", "prefetch.tensormap [%rd17];"), [])

    def test_another_register(self):
        self.assertEqual(self.unread("[%rd15+16]", "[%rd14+16]"), ["tokens"])

    def test_known(self):
        arguments = {"bytes": 272, "fields": [*ARGUMENTS["fields"], {"name": "logits_type", "offset": 256}]}
        self.assertEqual(argument_reads.unread(PTX, arguments, "using Score = moe::routing::Sigmoid;"), ["logits_type"])
        self.assertEqual(argument_reads.unread(PTX, arguments, "using Score = moe::routing::Drawn;"), [])


if __name__ == "__main__":
    unittest.main()
