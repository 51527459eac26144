"""Writes a report, a list of blocks, as report.md, as report.html, which contains its pictures, and as plain text.

write_page([Heading("A run", 1), Text("It went well."), Figures([Plot("kl", "KL", [...])])], out)
to_text([Table(["", "accuracy"], [["grpo", "40.0%"]])])     # for a terminal

A block is data alone. How the page shows it is in assets/report.html.jinja.
"""

import re
import textwrap
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rlhf_exp.errors import printable
from rlhf_exp.report.plots import Plot, draw

ASSETS = Path(__file__).parent.parent / "assets"
TEXTS: dict[str, Any] = yaml.safe_load((ASSETS / "report_texts.yaml").read_text(encoding="utf-8"))
NOTES: dict[str, str] = TEXTS["notes"]
"""The sentences that explain a section."""


class Heading(NamedTuple):
    text: str
    level: int = 2


class Text(NamedTuple):
    text: str


class Table(NamedTuple):
    """`folded`: the page shows only this title until the reader opens it; empty for a table that is open."""

    head: list[str]
    rows: list[list[str]]
    folded: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold only numbers, or - for none, and are aligned to the right; the first holds names."""
        columns = ([row[i] for row in self.rows] for i in range(1, len(self.head)))
        return [False, *(all(re.match(r"[<+-]?\d|-?$|nan", cell) for cell in column) for column in columns)]


class Figures(NamedTuple):
    plots: list[Plot]


class Code(NamedTuple):
    text: str
    language: str = "text"  # of report.md alone


class Callout(NamedTuple):
    """A remark with its weight: ok, info, warning or error."""

    kind: str
    title: str
    text: str


class Pair(NamedTuple):
    """Texts next to each other (two, or one alone), each with its caption before it, below the text that they answer.

    `folded`: the page shows only the title until the reader opens it.
    """

    title: str
    prompt: str
    sides: tuple[tuple[str, str], ...]
    folded: bool = False


Block = Heading | Text | Table | Figures | Code | Callout | Pair


def write_page(blocks: list[Block], out: Path, name: str = "report") -> Path:
    """Write NAME.md, NAME.html and plots/ into `out`; the first block is the title. Returns the HTML's path."""
    pictures = {plot.name: draw(plot, out) for block in blocks if isinstance(block, Figures) for plot in block.plots}
    (out / f"{name}.md").write_text(to_markdown(blocks) + "\n", encoding="utf-8")
    page = out / f"{name}.html"
    page.write_text(to_html(blocks, pictures), encoding="utf-8")
    return page


def to_markdown(blocks: list[Block]) -> str:
    """The blocks as GitHub reads them; no text in them becomes markup."""
    return "\n\n".join(map(_write_markdown, blocks))


def to_html(blocks: list[Block], pictures: dict[str, Path]) -> str:
    """One self-contained page; its template escapes every text."""
    from jinja2 import Environment, FileSystemLoader  # here, since a terminal's table needs none
    from markupsafe import Markup

    def show(value: object) -> object:
        return printable(value) if type(value) is str else value

    env = Environment(loader=FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                      finalize=show, keep_trailing_newline=True)  # fmt: skip
    style = Markup((ASSETS / "report.css").read_text(encoding="utf-8"))
    template = env.get_template("report.html.jinja")
    images = {name: b64encode(path.read_bytes()).decode() for name, path in pictures.items()}
    kinds = [type(block).__name__ for block in blocks]
    return template.render(blocks=blocks, kinds=kinds, images=images, style=style, any=any)


def to_text(blocks: list[Block]) -> str:
    """Headings, tables and texts for a terminal."""
    lines = []
    for block in blocks:
        match block:
            case Heading(text):
                lines += [f"{text}:"]
            case Table(head, rows, _):
                lines += align([head, *rows])
            case Text(text):
                lines += textwrap.wrap(text, 100, break_on_hyphens=False)
    return "\n".join(lines)


def align(rows: list[list[str]]) -> list[str]:
    """Lines of a table: the first column aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]


def _write_markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {escape_text(text)}"
        case Text(text):
            return _escape_paragraph(text)
        case Table(head, rows, title):
            rule = ["---:" if numeric else "---" for numeric in block.numeric]
            cells = [[escape_text(cell) for cell in row] for row in [head, *rows]]
            table = "\n".join("| " + " | ".join(row) + " |" for row in [cells[0], rule, *cells[1:]])
            summary = f"<details><summary>{escape(printable(title))}</summary>"
            return f"{summary}\n\n{table}\n\n</details>" if title else table
        case Figures(plots):
            return "\n\n".join(f"![{escape_text(plot.caption)}](plots/{plot.name}.png)" for plot in plots)
        case Code(text, language):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return f"{fence}{language}\n{printable(text)}\n{fence}"
        case Callout(_, title, text):
            return f"> **{escape_text(title)}** {escape_text(text)}".rstrip()
    sides = [part for caption, text in block.sides for part in (Text(caption), Code(text))]
    return "\n\n".join([f"**{escape_text(block.title)}**", to_markdown([Code(block.prompt), *sides])])


def escape_text(text: str) -> str:
    """Escapes what could open a tag, an entity, a link, emphasis, a fence or a new cell."""
    return re.sub(r"([\\|<*`&~]|(?<![^\W_])_|_(?![^\W_])|\](?=[(:\[]))", r"\\\1", " ".join(printable(text).split()))


def _escape_paragraph(text: str) -> str:
    """`escape_text`, and what would make the text a heading, a list, a quotation or a line."""
    text = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", escape_text(text))
    return re.sub(r"^(?=[-+](?:[\s-]|$)|[#>=])", r"\\", text)
