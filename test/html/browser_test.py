#!/usr/bin/env python3
# ===- browser_test.py - pages of moec explain in a browser -----------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Opens pages of two models, with and without times, and of a refused layer in a headless Chromium: on a phone and on a desk, in the
light and the dark scheme.

  browser_test.py --build BUILD [--pictures FOLDER]     exit status 77 without Chromium"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import chromium
import fixture

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ("qwen3-30b-a3b", "gpt-oss-20b")
PHONE, DESK = (360, 740), (1200, 900)
SIZES = (PHONE, (400, 860), DESK, (1600, 1000))
PAPER = (718, 1047)  # A4 without margins
LEAST_CONTRAST = 4.5
SKIPPED = 77

# Texts of pictures that leave their picture or lie on each other.
TEXTS = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg[role=img]')) {
    const frame = svg.getBoundingClientRect(), boxes = [];
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push('outside: ' + text.textContent);
      for (const [other, name] of boxes)
        if (Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1 &&
            Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 3)
          found.push('overlap: ' + text.textContent + ' and ' + name);
      boxes.push([box, text.textContent]);
    }
  }
  return found;
})()"""

# The least contrast of a text with what lies behind it, and that text.
CONTRAST = """(() => {
  const parse = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const seen = color => { const c = parse(color); return c.length >= 3 && (c.length < 4 || c[3] > 0.5); };
  const light = color => { const [r, g, b] = parse(color).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const behind = node => { for (; node; node = node.parentElement)
      if (seen(getComputedStyle(node).backgroundColor)) return getComputedStyle(node).backgroundColor; return 'rgb(255, 255, 255)'; };
  let least = [99, ''];
  const take = (text, front, back) => { const value = ratio(front, back); if (value < least[0]) least = [value, text]; };
  for (const node of document.querySelectorAll('h1, h2, h3, p, dt, dd, td, th, li, summary, span, figcaption, a'))
    if (node.textContent.trim()) take(node.textContent.slice(0, 40), getComputedStyle(node).color, behind(node));
  for (const text of document.querySelectorAll('svg[role=img] text')) {
    const box = text.getBoundingClientRect();
    if (!box.width) continue; // the other width's picture
    const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    let back = behind(text.ownerSVGElement);
    for (const rect of text.ownerSVGElement.querySelectorAll('rect')) {
      const area = rect.getBoundingClientRect();
      const inside = area.left <= x && x <= area.right && area.top <= y && y <= area.bottom;
      if (inside && rect.compareDocumentPosition(text) & 4) back = getComputedStyle(rect).fill;
    }
    take(text.textContent, getComputedStyle(text).fill, back);
  }
  return least;
})()"""

# Colors of what the eye sees first.
COLORS = """['body', 'section', 'h1', 'td', 'svg text', '.card', '.region'].map(name => {
  const node = document.querySelector(name);
  return node && [getComputedStyle(node).color, getComputedStyle(node).backgroundColor, getComputedStyle(node).fill].join();
})"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--pictures", type=pathlib.Path, help="keeps a screenshot of each page here")
    return parser.parse_args()


OPTIONS = arguments()
os.environ["MOEC_LIBRARY"] = str((OPTIONS.build / "lib/libmoec.so").resolve())
sys.path.insert(0, str(ROOT / "python"))
import moec  # noqa: E402
from moec.report import Report  # noqa: E402


def moec_page(path, *words):
    """A page of the command; its exit status."""
    return subprocess.run([OPTIONS.build / "bin/moec", "explain", *words, f"--html={path}", "-o", os.devnull], check=False,
                          capture_output=True).returncode


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="moec-pages-")
        cls.browser = chromium.Chromium(chromium.find())
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.browser.close)

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / f"{name}.html")

    def written(self, name, text):
        pathlib.Path(self.path(name)).write_text(text, encoding="utf-8")
        return self.path(name)

    def problems(self, path, size, dark):
        """All that is wrong with a page; [] for a good one."""
        self.browser.show(path, *size, dark)
        found = [message for message in self.browser.messages if message != f"request: file://{path}"]
        width = self.browser.value("document.documentElement.scrollWidth")
        if width > size[0]:
            found.append(f"{width} pixels wide in a window of {size[0]}")
        found += self.browser.value(TEXTS)
        ratio, text = self.browser.value(CONTRAST)
        if ratio < LEAST_CONTRAST:
            found.append(f"contrast {ratio:.2f} of '{text}'")
        return found

    def look(self, name, path):
        colors = {}
        for size in SIZES:
            for dark in (False, True):
                with self.subTest(page=name, size=size, dark=dark):
                    self.assertEqual(self.problems(path, size, dark), [])
                    colors[dark] = self.browser.value(COLORS)
                    if OPTIONS.pictures:
                        OPTIONS.pictures.mkdir(parents=True, exist_ok=True)
                        self.browser.picture(OPTIONS.pictures / f"{name}-{size[0]}-{'dark' if dark else 'light'}.png")
        for light, dark in zip(colors[False], colors[True]):
            self.assertTrue(light is None or light != dark, light)

    def count(self, selector):
        return self.browser.value(f"document.querySelectorAll({json.dumps(selector)}).length")

    def check_elements(self, report):
        target = report["targets"][0]
        variants = target["variants"]
        mapped = sum(bool(variant["buffers"]) for variant in variants)
        self.assertEqual(self.count("figure.graph svg"), len(variants))
        self.assertEqual(self.count("figure.graph .card"), sum(len(variant["kernels"]) for variant in variants))
        self.assertEqual(self.count("figure.graph .chip"),
                         sum(len(kernel["stages"]) for variant in variants for kernel in variant["kernels"]))
        self.assertEqual(self.count("figure.map svg"), mapped)
        self.assertEqual(self.count("figure.map .region"), sum(len(variant["buffers"]) for variant in variants))
        self.assertEqual(self.count("figure.strip .wide .region"), len(variants))
        # A wide and a narrow picture of times and of the roofline.
        self.assertEqual(self.count("figure.chart svg"), 4)
        self.assertEqual(self.count("td.no"), len(target["refused"]))

    def test_models(self):
        for model in MODELS:
            config = ROOT / "examples/models" / f"{model}.json"
            path = self.path(model)
            self.assertEqual(moec_page(path, str(config), "--arch=sm_90a", "--gpu=h100_sxm"), 0)
            self.look(model, path)
            self.check_elements(moec.explain(config, arch="sm_90a", gpu="h100_sxm", max_tokens=65536).data)

    def test_models_with_times(self):
        for model in MODELS:
            report = fixture.with_times(moec.explain(ROOT / "examples/models" / f"{model}.json", arch="sm_90a", gpu="h100_sxm").data)
            bench = fixture.bench_of(report)
            self.look(f"{model}-timed", self.written(f"{model}-timed", Report(report).to_html(bench)))
            self.check_elements(report)
            cells = len(bench["packages"][0]["cells"])
            # The last of them ran other kernels.
            self.assertEqual(self.count("figure.chart .s-measured .mark"), 4 * cells)
            self.assertEqual(self.count("figure.chart .s-measured .hollow"), 4)
            self.assertEqual(self.count("figure.bars .wide .region"), sum(
                len(row["kernels"]) for variant in report["targets"][0]["variants"] for row in variant["predictions"]))

    def test_compared(self):
        """Two GPUs of one arch and two schedules in one chart."""
        config = ROOT / "examples/models/qwen3-30b-a3b.json"
        path, other = self.path("compared"), pathlib.Path(self.folder.name) / "mma_sync.json"
        report = moec.explain(config, arch="sm_90a", gpu="h100_sxm", max_tokens=65536)
        forced = moec.explain(config, arch="sm_90a", gpu="h100_sxm", engine="mma_sync", max_tokens=65536)
        other.write_text(forced.to_json())
        self.assertEqual(moec_page(path, str(config), "--gpu=h100,h200", f"--compare={other}"), 0)
        self.look("compared", path)
        self.assertEqual(self.count("#targets figure.chart svg"), 2)
        self.assertEqual(self.count("#targets .legend li"), 3)
        points = sum(len(variant["predictions"]) for variant in report.targets[0]["variants"])
        self.assertEqual(self.count("#targets .wide .mark"), 3 * points)
        text = self.browser.value("document.querySelector('#targets').textContent")
        self.assertIn("mma_sync (sm_90a, h100_sxm): ", text)
        # The ratio of the table is that of the predictions.
        times = {name: {row["tokens"]: row["microseconds"] for variant in of.targets[0]["variants"] for row in variant["predictions"]}
                 for name, of in (("first", report), ("other", forced))}
        ratio = f"{times['other'][8] / times['first'][8]:.2f}"
        row = "[...document.querySelectorAll('#targets tbody tr')].find(row => row.cells[0].textContent == '8')"
        self.assertEqual(self.browser.value(f"[...{row}.cells].at(-1).textContent"), ratio)
        self.assertGreater(self.count("#targets td.reason"), 2)
        h200 = moec.explain(config, arch="sm_90a", gpu="h200_sxm", max_tokens=65536)
        page = report.to_html(compare={"h200_sxm": h200, "mma_sync": forced})
        for sentence in ("sm_90a, h200_sxm: ", "mma_sync (sm_90a, h100_sxm): "):
            self.assertIn(f'<p class="headline">{sentence}', page)

    def test_rows_of_experts(self):
        config = ROOT / "examples/models/qwen3-30b-a3b.json"
        for histogram, groups in (("uniform", 1), ("zipf:1.2", 128), ("used:0.5", 2)):
            report = moec.explain(config, arch="sm_90a", gpu="h100_sxm", histogram=histogram, max_tokens=65536)
            name = f"rows-{histogram.replace(':', '-')}"
            self.look(name, self.written(name, report.to_html()))
            shown = [row for variant in report.targets[0]["variants"] for row in variant["predictions"] if row["tokens"] in (8, 512, 8192)]
            self.assertEqual([len(row["experts"]) for row in shown], [groups] * 3)
            for cls in ("solid", "padding"):
                self.assertEqual(self.count(f"figure.rows .wide .{cls}"), 3 * groups)
            for row in shown:
                self.assertAlmostEqual(sum(each["experts"] * each["rows"] for each in row["experts"]) / row["rows"], 1, 2)
                tiles = sum(each["experts"] * each["tile_rows"] for each in row["experts"])
                self.assertAlmostEqual(1 - row["rows"] / tiles, row["padding"], 2)

    def test_paper(self):
        report = fixture.with_times(moec.explain(ROOT / "examples/models/gpt-oss-20b.json", arch="sm_90a", gpu="h100_sxm").data)
        path = self.written("paper", Report(report).to_html(fixture.bench_of(report)))
        self.browser.show(path, *PAPER, dark=False, media="print")
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), PAPER[0])
        self.assertEqual(self.browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")

    def test_a_refused_layer(self):
        path = self.path("refused")
        self.assertEqual(moec_page(path, str(ROOT / "examples/models/gpt-oss-20b.json"), "--arch=sm_75", "--engine=wgmma"), 1)
        self.look("refused", path)
        self.assertEqual(self.count(".refusal"), 1)
        self.assertGreater(self.count("td.no"), 1)

    def test_texts_of_a_user(self):
        report = moec.explain(ROOT / "examples/models/qwen3-30b-a3b.json", arch="sm_90a").data
        report["name"] = "<script>document.title = 'taken'</script><img src=http://example.org/x>" + "w" * 300
        self.assertEqual(self.problems(self.written("evil", Report(report).to_html()), PHONE, dark=False), [])
        self.assertEqual((self.count("script"), self.count("img")), (0, 0))

    def test_a_notebook_shows_the_page(self):
        report = moec.explain(ROOT / "examples/models/qwen3-30b-a3b.json", arch="sm_90a")
        path = self.written("notebook", "<!DOCTYPE html><meta charset=utf-8>" + report._repr_html_())
        self.browser.show(path, *DESK, dark=False)
        messages = [message for message in self.browser.messages if not message.startswith(("request: file:", "request: about:"))]
        self.assertEqual(messages, [])
        self.assertGreater(self.browser.value("document.querySelector('iframe').clientHeight"), 300)

    def test_what_is_wrong_is_seen(self):
        good = moec.explain(ROOT / "examples/models/qwen3-30b-a3b.json", arch="sm_90a").to_html()
        for name, old, new, problem in (
            ("script", "</main>", "<script>alert(1)</script></main>", "Content Security Policy"),
            ("request", "</main>", "<img src='file:///nothing.png'></main>", "nothing.png"),
            ("inline", "<main>", "<main style='color: red'>", "Content Security Policy"),
            ("wide", "</main>", "<svg width='2000' height='9'></svg></main>", "pixels wide"),
            ("overlap", "</svg>", "<text x='9' y='9'>first</text><text x='12' y='9'>second</text></svg>", "overlap: second"),
            ("outside", "</svg>", "<text x='-99' y='9'>gone</text></svg>", "outside: gone"),
        ):
            with self.subTest(problem=name):
                found = self.problems(self.written(name, good.replace(old, new, 1)), DESK, dark=False)
                self.assertTrue(any(problem in one for one in found), found)
        # A sheet of another hash would not be taken: the report of a page without one.
        faint = good.replace('content="default-src', 'content="x-src').replace("</style>", ".quiet { color: #ccc; }</style>")
        self.assertTrue(any("contrast" in one for one in self.problems(self.written("faint", faint), DESK, dark=False)))


if __name__ == "__main__":
    if not chromium.find():
        print("no chromium here: install Debian's package chromium", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
