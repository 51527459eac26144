"""Writes a report, a list of blocks, as report.md and as report.html, which contains its pictures.

write_page([Heading("A run", 1), Text("It went well."), Figures([(out / "plots/kl.png", "KL")])], out)
"""

import re
from base64 import b64encode
from html import escape as escape_html
from pathlib import Path
from typing import NamedTuple

from rlhf_exp.errors import printable

STYLE = Path(__file__).parent.parent / "assets" / "report.css"


class Heading(NamedTuple):
    text: str
    level: int = 2

    def markdown(self, out: Path) -> str:
        return f"{'#' * self.level} {_escape_markdown(self.text)}"

    def html(self) -> str:
        return f"<h{self.level}>{_let_break(escape(self.text))}</h{self.level}>"


class Text(NamedTuple):
    text: str

    def markdown(self, out: Path) -> str:
        return _begin_paragraph(self.text)

    def html(self) -> str:
        return f"<p>{escape(self.text)}</p>"


class Table(NamedTuple):
    """Columns in which all cells are numbers, or - for none, are aligned to the right, except the first, of names."""

    head: list[str]
    rows: list[list[str]]

    def markdown(self, out: Path) -> str:
        rule = ["---:" if numeric else "---" for numeric in self._numeric()]
        rows = [[_escape_markdown(cell) for cell in row] for row in [self.head, *self.rows]]
        return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])

    def html(self) -> str:
        classes = [' class="n"' if numeric else "" for numeric in self._numeric()]
        head = "".join(f"<th{c}>{escape(cell)}</th>" for c, cell in zip(classes, self.head, strict=True))
        rows = (
            "".join(
                f"<td{c}>{_dim_bounds(escape(cell)) if c else _let_break(escape(cell))}</td>"
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
        numeric = [all(re.match(r"[<+-]?\d|-?$|nan", cell) for cell in column) for column in columns]
        return [False, *numeric[1:]]


class Figures(NamedTuple):
    """Pictures with a caption each; their paths are below the report's folder."""

    items: list[tuple[Path, str]]

    def markdown(self, out: Path) -> str:
        return "\n\n".join(
            f"![{_escape_markdown(caption)}]({path.relative_to(out).as_posix()})" for path, caption in self.items
        )

    def html(self) -> str:
        figures = "\n".join(
            f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,'
            f'{b64encode(path.read_bytes()).decode()}"><figcaption>{escape(caption)}</figcaption></figure>'
            for path, caption in self.items
        )
        return f'<div class="figures">\n{figures}\n</div>'


class Code(NamedTuple):
    text: str
    language: str = "text"  # of report.md alone

    def markdown(self, out: Path) -> str:
        fence = "`" * max(3, _longest_fence(self.text) + 1)
        return f"{fence}{self.language}\n{printable(self.text)}\n{fence}"

    def html(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


class Callout(NamedTuple):
    """A remark with its weight: ok, info, warning or error."""

    kind: str
    title: str
    text: str
    code: str = ""

    def markdown(self, out: Path) -> str:
        text, fence = " ".join(printable(self.code).split()), "`" * (_longest_fence(self.code) + 1)
        edge = " " if "`" in text else ""  # or a backtick would lengthen the fence
        code = f" {fence}{edge}{text}{edge}{fence}" if text else ""
        return f"> **{_escape_markdown(self.title)}** {_escape_markdown(self.text)}{code}".rstrip()

    def html(self) -> str:
        code = f" <code>{escape(self.code)}</code>" if self.code else ""
        body = f"<b>{escape(self.title)}</b> {escape(self.text)}{code}"
        return f'<div class="callout {escape(self.kind)}">{body}</div>'


class Pair(NamedTuple):
    """Texts next to each other (two, or one alone), each with a caption, below the text that they answer.

    `folded`: the page shows only the title until the reader opens it.
    """

    title: str
    prompt: str
    captions: tuple[str, ...]
    texts: tuple[str, ...]
    folded: bool = False

    def markdown(self, out: Path) -> str:
        sides = zip(self.captions, self.texts, strict=True)
        parts = [f"{_begin_paragraph(caption)}\n\n{Code(text).markdown(out)}" for caption, text in sides]
        return "\n\n".join([f"**{_escape_markdown(self.title)}**", Code(self.prompt).markdown(out), *parts])

    def html(self) -> str:
        sides = "".join(
            f'<div><div class="label">{escape(caption)}</div>{Code(text).html()}</div>'
            for caption, text in zip(self.captions, self.texts, strict=True)
        )
        body = f'{Code(self.prompt).html()}<div class="pair">{sides}</div>'
        if self.folded:
            return f"<details><summary>{escape(self.title)}</summary>{body}</details>"
        return f'<div class="pair-title">{escape(self.title)}</div>{body}'


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
        f"<title>{escape(blocks[0].text)}</title>\n<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n",
        encoding="utf-8",
    )
    return page


def _escape_markdown(text: str) -> str:
    """Escapes what could open a tag, an entity, a link, emphasis, a fence or a new cell."""
    return re.sub(r"([\\|<*`&~]|(?<![^\W_])_|_(?![^\W_])|\](?=[(:\[]))", r"\\\1", " ".join(printable(text).split()))


def _begin_paragraph(text: str) -> str:
    """`_escape_markdown`, and what would make the text a heading, a list, a quotation or a line."""
    text = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", _escape_markdown(text))
    return re.sub(r"^(?=[-+](?:[\s-]|$)|[#>=])", r"\\", text)


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def escape(text: str) -> str:
    return escape_html(printable(text))


def _let_break(text: str) -> str:
    """Allow a name that is too long for a phone to break after its separators, never inside a word; `text` is already
    escaped."""
    return re.sub(r"\S{19,}", lambda name: re.sub(r"([/_,=])(?=\w)", r"\1<wbr>", name[0]), text)


def _dim_bounds(cell: str) -> str:
    return re.sub(r"(\[[^\]]*\])", r"<small>\1</small>", cell)
