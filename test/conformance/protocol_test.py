#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""protocol.py on small PTX: what keeps the protocol of programmatic launches and what breaks it."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import protocol  # noqa: E402

HEAD = """.version 8.0
.target sm_90
.visible .entry kernel(.param .align 8 .b8 args[16]) .maxntid 128
{ // a comment; with a semicolon
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
"""


def said(body, awaits_counters=False):
    return protocol.violations(HEAD + body + "\n}\n", awaits_counters)


class ProtocolTest(unittest.TestCase):
    def test_a_kernel_that_keeps_it(self):
        self.assertEqual(said("""
  ld.param.u64 %rd1, [args];
  ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
  st.shared.v2.u32 [%r5], {%r1, %r2};
  atom.shared.add.u32 %r6, [%r5], 1;
  cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd1, {%r1, %r2, %r3}], [%r6];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra $L__BB0_2;
  griddepcontrol.wait;
  griddepcontrol.launch_dependents;
  st.global.u32 [%rd1], %r2;
  ret;
$L__BB0_2:
  griddepcontrol.wait;
  ret;"""), [])

    def test_a_way_out_without_a_wait(self):
        for way, text in (("ret;", "'ret' is reached"), ("@%p1 exit;\n  griddepcontrol.wait;\n  ret;", "'@%p1 exit' is reached"),
                          ("@%p1 bra $L;\n  griddepcontrol.wait;\n$L:\n  ret;", "'ret' is reached"),
                          ("@%p1 griddepcontrol.wait;\n  ret;", "'ret' is reached"), ("add.u32 %r1, %r1, 1;", "the kernel's end")):
            found = said("  setp.eq.u32 %p1, %r1, 0;\n  " + way)
            self.assertEqual(len(found), 1, (way, found))
            self.assertIn(text, found[0])

    def test_groups_of_multiplies_begin_with_a_fence(self):
        multiply = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2}, {%r1, %r2}, %rd1, 1, 1, 1, 1;"
        commit = "wgmma.commit_group.sync.aligned;"
        group = f"wgmma.fence.sync.aligned;\n {multiply}\n {multiply}\n {commit}\n"
        end = " griddepcontrol.wait;\n ret;"
        self.assertEqual(said(group + group + end), [])
        for wrong in (multiply + commit, group + multiply + commit):
            found = said(wrong + end)
            self.assertEqual(len(found), 1, found)
            self.assertIn("begins a group without wgmma.fence", found[0])

    def test_stores_that_a_cluster_is_told_are_fenced(self):
        engine = "  cp.async.bulk.tensor.3d.shared::cluster.global [%r5], [%rd1, {%r1, %r2, %r3}], [%r6];\n"
        store, arrive = "  st.shared.b32 [%r5], %r1;\n", "  barrier.cluster.arrive.release.aligned;\n"
        fence, end = "  fence.proxy.async.shared::cta;\n", "  griddepcontrol.wait;\n  ret;"
        wrong = store + store + arrive + arrive
        self.assertIn("without fence.proxy.async", said(engine + wrong + end)[0])
        # Without a copy engine, or with the fence, or where the CTA met, or told once: nothing is wrong.
        for right in (wrong, engine + store + arrive + fence + arrive, engine + store + "  bar.sync 1, 128;\n" + arrive + arrive,
                      engine + store + arrive, engine + arrive + arrive):
            self.assertEqual(said(right + end), [], right)

    def test_a_counted_entry_has_a_fence(self):
        counter = "  ld.acquire.gpu.global.b32 %r1, [%rd1];\n"
        entry = "  ld.relaxed.gpu.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\n"
        fence, end = "  @%p1 bra $L;\n  fence.acq_rel.gpu;\n$L:\n", "  griddepcontrol.wait;\n  ret;"
        self.assertEqual(said(counter + entry + fence + end, True), [])
        for wrong in (counter + entry + end, counter + fence + entry + end):
            self.assertEqual(said(wrong, True), ["an entry's counter is read, and no fence.acq_rel.gpu follows"], wrong)
        self.assertEqual(said(entry + end), [])

    def test_a_warp_meets_around_a_discard(self):
        wait, read = "  griddepcontrol.wait;\n", "  ld.global.cg.L2::cache_hint.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1], %rd2;\n"
        met, drop = "  bar.warp.sync -1;\n", "$D:\n  discard.global.L2 [%rd1], 128;\n  @%p1 bra $D;\n"
        end = "  mbarrier.arrive.shared::cta.b64 _, [%r1];\n  ret;"
        self.assertEqual(said(wait + read + met + drop + met + end), [])
        self.assertIn("drops what its warp may not have read", said(wait + read + drop + met + end)[0])
        self.assertIn("follows a discard before its warp has met", said(wait + read + met + drop + end)[0])
        self.assertIn("may write global memory before", said(drop + met + wait + end)[0])

    def test_writes_before_the_wait(self):
        for write in ("st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}", "st.u32 [%rd1], %r1", "red.global.add.u32 [%rd1], %r1",
                      "atom.global.add.u32 %r1, [%rd1], 1", "@%p1 st.global.u32 [%rd1], %r1",
                      "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2"):
            found = said(f"  {write};\n  griddepcontrol.wait;\n  ret;")
            self.assertEqual(len(found), 1, (write, found))
            self.assertIn("may write global memory before", found[0])
        self.assertEqual(said("  st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];\n"
                              "  griddepcontrol.wait;\n  ret;"), [])

    def test_counters_in_place_of_the_wait(self):
        counter = "$L:\n  ld.acquire.gpu.global.b32 %r1, [%rd1];\n  @%p1 bra $L;\n"
        told = "  {again:\n  mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2;\n  @!done bra again;}\n"
        cursor, store = "  atom.global.add.u32 %r1, [%rd1], 1;\n", "  st.global.u32 [%rd1], %r1;\n"
        end = "  griddepcontrol.wait;\n  griddepcontrol.launch_dependents;\n  ret;"
        sound = counter + cursor + told + store
        self.assertEqual(said(sound + end, True), [])
        # Others do not declare it; and each of these lacks or swaps one thing.
        for faulty, awaits, text in ((sound + end, False, "may write global memory before"),
                                     (store + sound + end, True, "may write global memory before"),
                                     (counter + store + told + end, True, "may write global memory before"),
                                     ("  @%p1 bra $S;\n" + counter + told + "$S:\n" + store + end, True, "may write global memory"),
                                     (counter + "  red.global.add.u32 [%rd1], 1;\n" + told + end, True, "may write global memory"),
                                     (cursor + told + store + end, True, "no ld.acquire.gpu.global reads one"),
                                     (sound + "  ret;", True, "'ret' is reached without"),
                                     (sound + "  griddepcontrol.launch_dependents;\n" + end, True, "comes before")):
            found = said(faulty, awaits)
            self.assertTrue(found, faulty)
            self.assertTrue(any(text in sentence for sentence in found), (faulty, found))
        # An entry whose last word is a counter; nobody counts up what other loads read, or where none is declared.
        entry = "  ld.global.cg.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\n"
        self.assertIn("by a weak load", said(entry + sound + end, True)[0])
        self.assertEqual(said(entry.replace("ld.global.cg", "ld.relaxed.gpu.global") + "  fence.acq_rel.gpu;\n" + sound + end, True), [])
        self.assertEqual(said(entry + end), [])
        self.assertTrue(protocol.declares_counters("static constexpr int kAwaited = 12;"))
        self.assertFalse(protocol.declares_counters("static constexpr int kAwaited = 0;"))

    def test_a_successor_before_the_wait(self):
        found = said("  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;\n  ret;")
        self.assertEqual(found, ["griddepcontrol.launch_dependents comes before griddepcontrol.wait"])

    def test_loops_and_labels_of_inline_assembly(self):
        wait = "  {.reg .pred done;\n  again:\n  mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2;\n  @!done bra again;}\n"
        self.assertEqual(said(wait + "  griddepcontrol.wait;\n" + wait + "$L:\n  st.global.u32 [%rd1], %r1;\n  bra.uni $L;"), [])
        self.assertEqual(len(said(wait + wait + "  ret;")), 1)

    def test_what_cannot_be_followed(self):
        self.assertIn("cannot be followed", said("  call.uni f, (%r1);\n  griddepcontrol.wait;\n  ret;")[0])
        with self.assertRaisesRegex(ValueError, "unknown label"):
            said("  bra $nowhere;")

    def test_a_trap_needs_no_wait(self):
        self.assertEqual(said("  @%p1 bra $L;\n  griddepcontrol.wait;\n  ret;\n$L:\n  trap;"), [])


if __name__ == "__main__":
    unittest.main()
