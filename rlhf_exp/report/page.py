"""A report as a list of blocks, written as report.md and as report.html, one file with its pictures inside.

write_page([Heading("A run", 1), Text("It went well."), Figures([(out / "plots/kl.png", "KL")])], out)
"""

import base64
import html
import re
from dataclasses import dataclass
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; --text: #1c2128; --page: #fff; --dim: #57606a; --line: #d8dee4; --faint: #f3f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --page: #0d1117; --dim: #9da7b3; --line: #30363d; --faint: #161b22; }
  img { background: #fff; padding: .4rem; border-radius: 6px; box-sizing: border-box; } }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  color: var(--text); background: var(--page); max-width: 78rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0 .25rem; overflow-wrap: break-word; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 50rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { padding: .34rem .8rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { color: var(--dim); font-weight: 600; border-bottom: 2px solid var(--line); }
.scroll th:first-child, .scroll td:first-child { position: sticky; left: 0; background: var(--page);
  white-space: normal; min-width: 6rem; max-width: 24rem; padding-left: 0; }
table.dense th { white-space: normal; vertical-align: bottom; }
@media (min-width: 48rem) { .scroll td:first-child { min-width: 11rem; } }
td.n, th.n { text-align: right; }
td small { color: var(--dim); }
table.dense th, table.dense td { padding: .3rem .5rem; } table.dense small { display: block; }
@media (max-width: 48rem) { td small { display: block; } th, td { padding: .3rem .4rem; }
  .scroll th:first-child, .scroll td:first-child { max-width: 9rem; border-right: 1px solid var(--line); } }
code, pre { font: .86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { background: var(--faint); padding: .1rem .3rem; border-radius: 3px; overflow-wrap: anywhere; }
pre { background: var(--faint); border-radius: 6px; padding: .7rem .9rem; margin: .4rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.figures { display: grid; gap: 1rem 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 25rem), 1fr)); }
figure { margin: 0; } img { width: 100%; height: auto; } figcaption { font-size: .88rem; color: var(--dim); }
.callout { border-left: 4px solid var(--dim); background: var(--faint); max-width: 62rem;
  padding: .6rem 1rem; margin: .7rem 0; }
.callout.error { border-color: #d55e00; } .callout.warning { border-color: #e69f00; }
.callout.info { border-color: #0072b2; } .callout.ok { border-color: #009e73; }
.pair { display: grid; gap: .2rem 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
details { margin: .35rem 0; } summary { cursor: pointer; }
.pair-title { font-weight: 600; margin-top: 1.6rem; } .label { font-size: .88rem; color: var(--dim); }
"""


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2

    def markdown(self, out: Path) -> str:
        return f"{'#' * self.level} {_escape_markdown(self.text)}"

    def html(self) -> str:
        return f"<h{self.level}>{_let_break(html.escape(self.text))}</h{self.level}>"


@dataclass(frozen=True)
class Text:
    text: str

    def markdown(self, out: Path) -> str:
        return _escape_markdown(self.text)

    def html(self) -> str:
        return f"<p>{html.escape(self.text)}</p>"


@dataclass(frozen=True)
class Table:
    """Columns whose cells all begin like numbers, or say - for none, stand to the right; never the first, of names."""

    head: list[str]
    rows: list[list[str]]

    def markdown(self, out: Path) -> str:
        rule = ["---:" if numeric else "---" for numeric in self._numeric()]
        rows = [[_escape_markdown(cell) for cell in row] for row in [self.head, *self.rows]]
        return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])

    def html(self) -> str:
        classes = [' class="n"' if numeric else "" for numeric in self._numeric()]
        head = "".join(f"<th{c}>{html.escape(cell)}</th>" for c, cell in zip(classes, self.head, strict=True))
        rows = (
            "".join(
                f"<td{c}>{_dim_bounds(html.escape(cell)) if c else _let_break(html.escape(cell))}</td>"
                for c, cell in zip(classes, row, strict=True)
            )
            for row in self.rows
        )
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        top = f"<thead><tr>{head}</tr></thead>" if any(self.head) else ""
        dense = ' class="dense"' if len(self.head) > 8 else ""
        return f'<div class="scroll"><table{dense}>{top}<tbody>\n{body}\n</tbody></table></div>'

    def _numeric(self) -> list[bool]:
        columns = ([row[i] for row in self.rows] for i in range(len(self.head)))
        numeric = [all(re.match(r"[+-]?\d|-?$|nan", cell) for cell in column) for column in columns]
        return [False, *numeric[1:]]


@dataclass(frozen=True)
class Figures:
    """Pictures with a caption each; the paths lie below the report's folder."""

    items: list[tuple[Path, str]]

    def markdown(self, out: Path) -> str:
        return "\n\n".join(
            f"![{_escape_markdown(caption)}]({path.relative_to(out).as_posix()})" for path, caption in self.items
        )

    def html(self) -> str:
        figures = "\n".join(
            f'<figure><img alt="{html.escape(caption)}" src="data:image/png;base64,'
            f'{base64.b64encode(path.read_bytes()).decode()}"><figcaption>{html.escape(caption)}</figcaption></figure>'
            for path, caption in self.items
        )
        return f'<div class="figures">\n{figures}\n</div>'


@dataclass(frozen=True)
class Code:
    text: str

    def markdown(self, out: Path) -> str:
        longest = max(map(len, re.findall("`+", self.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}text\n{self.text}\n{fence}"

    def html(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


@dataclass(frozen=True)
class Callout:
    """A remark with its weight: ok, info, warning or error."""

    kind: str
    title: str
    text: str
    code: str = ""

    def markdown(self, out: Path) -> str:
        code = f" `{self.code}`" if self.code else ""
        return f"> **{_escape_markdown(self.title)}** {_escape_markdown(self.text)}{code}".rstrip()

    def html(self) -> str:
        code = f" <code>{html.escape(self.code)}</code>" if self.code else ""
        body = f"<b>{html.escape(self.title)}</b> {html.escape(self.text)}{code}"
        return f'<div class="callout {html.escape(self.kind)}">{body}</div>'


@dataclass(frozen=True)
class Pair:
    """Two texts side by side, each under its caption, and above them the text that both answer.

    `folded`: the page shows the title alone until the reader opens it.
    """

    title: str
    prompt: str
    captions: tuple[str, str]
    texts: tuple[str, str]
    folded: bool = False

    def markdown(self, out: Path) -> str:
        sides = zip(self.captions, self.texts, strict=True)
        parts = [f"{_escape_markdown(caption)}\n\n{Code(text).markdown(out)}" for caption, text in sides]
        return "\n\n".join([f"**{_escape_markdown(self.title)}**", Code(self.prompt).markdown(out), *parts])

    def html(self) -> str:
        sides = "".join(
            f'<div><div class="label">{html.escape(caption)}</div>{Code(text).html()}</div>'
            for caption, text in zip(self.captions, self.texts, strict=True)
        )
        body = f'{Code(self.prompt).html()}<div class="pair">{sides}</div>'
        if self.folded:
            return f"<details><summary>{html.escape(self.title)}</summary>{body}</details>"
        return f'<div class="pair-title">{html.escape(self.title)}</div>{body}'


Block = Heading | Text | Table | Figures | Code | Callout | Pair


def write_page(blocks: list[Block], out: Path, name: str = "report") -> Path:
    """Write NAME.md and NAME.html into `out`; the first block is the title. Returns the HTML's path."""
    markdown = "\n\n".join(block.markdown(out) for block in blocks)
    (out / f"{name}.md").write_text(markdown + "\n", encoding="utf-8")
    body = "\n".join(block.html() for block in blocks)
    page = out / f"{name}.html"
    page.write_text(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(blocks[0].text)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n",
        encoding="utf-8",
    )
    return page


def _escape_markdown(text: str) -> str:
    """Keeps text from becoming markup: what could open a tag, a link, emphasis or a new cell."""
    return re.sub(r"([\\|<*`]|\](?=\())", r"\\\1", " ".join(text.split()))


def _let_break(text: str) -> str:
    """Lets a name that is too long for a phone break after the marks that part it, never inside a word; `text` is
    escaped already."""
    return re.sub(r"\S{19,}", lambda name: re.sub(r"([/_,=])(?=\w)", r"\1<wbr>", name[0]), text)


def _dim_bounds(cell: str) -> str:
    return re.sub(r"(\[[^\]]*\])", r"<small>\1</small>", cell)
