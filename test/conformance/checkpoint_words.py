# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Codes of 4 bits in words of 32, as GPTQ, AWQ and compressed-tensors keep them: what a loader takes of them are whole words.

With an order (GPTQ's desc_act, compressed-tensors' actorder) each column of k says its group.
"""

import struct

import checkpoint_layers as layers

GROUP = 128
# Codes of rows and of columns that a word holds; whether rows come last in memory.
LAYOUTS = {
    "gptq": {"weight": (1, 8), "last": True},
    "gptq_v2": {"weight": (1, 8), "last": True},
    "awq": {"weight": (8, 1), "last": True},
    "pack_quantized": {"weight": (1, 8), "last": False},
}
WORDS = {
    True: {"weight": "qweight", "scale": "scales", "zero": "qzeros", "index": "g_idx"},
    False: {"weight": "weight_packed", "scale": "weight_scale", "zero": "weight_zero_point", "index": "weight_g_idx"},
}


class WordLayer:
    """As checkpoint_layers.Layer, of matrices as they are stored."""

    def __init__(self, shape, layout, seed, zero, ordered=False, symmetric=False):
        """`symmetric`: the checkpoint has zero points, of which each is the one that a layer without them has."""
        self.name, self.symmetric = layout, symmetric
        self.layout, self.shape, self.experts = LAYOUTS[layout], shape, shape["num_experts"]
        numbers = layers.Numbers(seed)
        hidden, wide = shape["hidden_size"], shape["intermediate_size"]
        self.units = {"weight": self.layout["weight"], "scale": (1, GROUP)}
        if zero:
            self.units["zero"] = (8, GROUP)
        self.of = {kind: {} for kind in self.units}
        for part, (rows, columns) in {"gate": (wide, hidden), "up": (wide, hidden), "down": (hidden, wide)}.items():
            for kind, (row_unit, column_unit) in self.units.items():
                extents = (rows // row_unit, columns // column_unit)
                extents = extents[::-1] if self.layout["last"] else extents
                self.of[kind][part] = [
                    numbers.floats("bf16", *extents, 0.01, 0.03) if kind == "scale" else numbers.codes("i32", *extents)
                    for _ in range(self.experts)]
        # The group of each column, for gates and ups and for downs; shuffled if the layer has act-order.
        self.index, self.ordered = {}, ordered
        for key, columns in (("first", hidden), ("second", wide)):
            self.index[key] = [[column // GROUP for column in range(columns)] for _ in range(self.experts)]
            for index in self.index[key] if ordered else []:
                numbers.random.shuffle(index)

    def index_of(self, part, expert):
        return self.index["second" if part == "down" else "first"][expert]

    def write(self, writer, prefix, projections):
        for kind, parts in self.of.items():
            for part, matrices in parts.items():
                for expert, matrix in enumerate(matrices):
                    name = f"{prefix}.experts.{expert}.{projections[part]}."
                    if kind == "scale" and self.symmetric:
                        self.write_symmetric(writer, name, part)
                    writer.matrix(name + WORDS[self.layout["last"]][kind], matrix)
                    if kind == "weight" and (self.layout["last"] or self.ordered):
                        index = self.index_of(part, expert)
                        writer.put(name + WORDS[self.layout["last"]]["index"], [len(index)], struct.pack(f"<{len(index)}i", *index),
                                   "int32")

    def write_symmetric(self, writer, name, part):
        hidden, wide = self.shape["hidden_size"], self.shape["intermediate_size"]
        rows, columns = (hidden, wide) if part == "down" else (wide, hidden)
        extents = [rows // 8, columns // GROUP]
        # GPTQ's first format has them less by one.
        code = 0x77 if self.name == "gptq" else 0x88
        writer.put(name + WORDS[self.layout["last"]]["zero"], extents[::-1] if self.layout["last"] else extents,
                   bytes([code]) * (extents[0] * extents[1] * 4), "int32")

    def expected(self, columns=None):
        begin, count = columns or (0, self.shape["intermediate_size"])
        last, made = self.layout["last"], {}
        for kind, (row_unit, column_unit) in self.units.items():
            def of_rows(matrix):
                first, number = begin // row_unit, count // row_unit
                return matrix.columns_of(first, number) if last else matrix.take(first, number)

            def of_columns(matrix):
                first, number = begin // column_unit, -(-count // column_unit)
                return matrix.take(first, number) if last else matrix.columns_of(first, number)

            parts = self.of[kind]
            first = b""
            for gate, up in zip(map(of_rows, parts["gate"]), map(of_rows, parts["up"])):
                first += b"".join(a + b for a, b in zip(gate.rows, up.rows)) if last else (gate + up).data()
            name = {"weight": "", "scale": "_scale", "zero": "_zero_point"}[kind]
            made["w13" + name] = first
            made["w2" + name] = b"".join(of_columns(matrix).data() for matrix in parts["down"])
        if self.ordered:
            for name, indices in (("w13", self.index["first"]), ("w2", self.index["second"])):
                made[name + "_group_index"] = b"".join(struct.pack(f"<{len(index)}i", *index) for index in indices)
        return made
