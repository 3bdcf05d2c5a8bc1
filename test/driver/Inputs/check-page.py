"""Checks a page of `moec explain --html`, and prints its headings, notes and the titles of its pictures.

check-page.py PAGE served|refused"""

import base64
import hashlib
import html.parser
import sys

VOID = {"meta"}
# All elements that a page has; none of them loads anything.
KNOWN = set(
    "html head meta title style body main header nav a section h1 h2 h3 p strong span dl div dt dd figure figcaption svg g rect line "
    "circle polyline polygon text desc ul li table thead tbody tr th td details summary".split()
)
SHOWN = {"h1", "h2", "p"}
MOST_BYTES = 500_000


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.policy, self.pictures, self.refused = [], "", 0, False
        self.texts = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        assert tag in KNOWN, tag
        assert len(values) == len(attributes), (tag, attributes)
        for name in values:
            assert name not in ("style", "src") and not name.startswith("on"), (tag, name)
        if tag == "a":
            assert values["href"].startswith("#"), values
        if tag == "meta" and values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag == "svg":
            self.pictures += values.get("role") == "img"
            assert values.get("role") == "img" or values.get("aria-hidden") == "true", values
        self.refused |= values.get("class") == "refusal"
        if tag not in VOID:
            self.open.append(tag)
            self.texts.append("")

    def handle_startendtag(self, tag, attributes):
        assert "svg" in self.open, tag
        assert tag in KNOWN, tag

    def handle_data(self, data):
        for index in range(len(self.texts)):
            self.texts[index] += data

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)
        text = " ".join(self.texts.pop().split())
        if tag == "style":
            self.style = text
        if tag in SHOWN:
            print(f"{tag}: {text}")
        if tag == "p" and text.startswith("Refused. "):
            print(f"refused: {text.removeprefix('Refused. ')}")
        if tag == "title" and self.open[-1] == "svg":
            print(f"svg: {text}")


path, outcome = sys.argv[1:]
text = open(path, encoding="utf-8").read()
assert len(text.encode()) < MOST_BYTES, len(text)
page = Page()
page.feed(text)
page.close()
assert not page.open, page.open
style = text[text.index("<style>") + len("<style>") : text.index("</style>")]
digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
assert page.policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'", page.policy
assert "url(" not in style and "@import" not in style
assert page.refused == (outcome == "refused"), outcome
assert (page.pictures == 0) == (outcome == "refused"), page.pictures
