"""Writes a report, a list of blocks, as report.md, as report.html, which contains its pictures, and as plain text.

write_page([Heading("A run", 1), Text("It went well."), Figures([Plot("kl", "KL", [...])])], out)
to_text([Table(["", "accuracy"], [["grpo", "40.0%"]])])     # for a terminal

A block is data alone. How the page shows it is in assets/report.html.jinja.
"""

import gzip
import json
import re
import textwrap
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rlhf_exp.analysis.report.plots import Plot, draw
from rlhf_exp.errors import printable
from rlhf_exp.runs.figures import align

ASSETS = Path(__file__).parents[2] / "assets"
TEXTS: dict[str, Any] = yaml.safe_load((ASSETS / "report_texts.yaml").read_text(encoding="utf-8"))
NOTES: dict[str, str] = TEXTS["notes"]
"""The sentences that explain a section."""


class Heading(NamedTuple):
    """`folded`: the page shows the section below it only when the reader opens it."""

    text: str
    level: int = 2
    folded: bool = False


class Text(NamedTuple):
    """`folded`: the page shows only this title until the reader opens it; empty for a text that is open."""

    text: str
    folded: str = ""


class Table(NamedTuple):
    """A table.

    Attributes:
        folded: the page shows only this title until the reader opens it; empty for a table that is open.
        marked: the rows whose names are in bold.
        shades: of each row and column how dark its ground is, 0 to 1; None for no ground. Empty for a plain table.
        links: of each row the relative address to which its name leads on the page; empty for none.
    """

    head: list[str]
    rows: list[list[str]]
    folded: str = ""
    marked: tuple[int, ...] = ()
    shades: Sequence[Sequence[float | None]] = ()
    links: Sequence[str] = ()

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold only numbers, or - for none, and are aligned to the right; dates are none, and the first
        column holds names."""
        columns = ([row[i] for row in self.rows] for i in range(1, len(self.head)))
        return [False, *(all(re.match(r"[<+-]?\d(?!\d{3}-\d)|-?$|nan", cell) for cell in column) for column in columns)]


class Figures(NamedTuple):
    plots: list[Plot]


class Code(NamedTuple):
    text: str
    language: str = "text"  # of report.md alone


class Callout(NamedTuple):
    """A remark with its weight: ok, info, warning or error. Between backticks there are names."""

    kind: str
    title: str
    text: str = ""


class Pair(NamedTuple):
    """Texts next to each other (two, or one alone), each with its caption before it, below the text that they answer.

    `folded`: the page shows only the title until the reader opens it.
    """

    title: str
    prompt: str
    sides: tuple[tuple[str, str], ...]
    folded: bool = False


class Widget(NamedTuple):
    """A part of the page that a script of assets/page/ draws.

    Attributes:
        kind: `curves` or `samples`.
        name: of this part of the page, as links call it.
        content: what the script reads, as JSON; the head of the script says its form.
        instead: what report.md and a page without scripts show.
        rest: rows for which the page has no room; the script reads them from plots/NAME.js.
    """

    kind: str
    name: str
    content: Mapping[str, object]
    instead: list[Any]
    rest: Sequence[Mapping[str, object]] = ()


class Columns(NamedTuple):
    """Blocks beside each other, a list for each column; on a narrow screen one below the other."""

    columns: list[list[Any]]


Block = Heading | Text | Table | Figures | Code | Callout | Pair | Widget | Columns

SCRIPTS = {"curves": ("vendor/uPlot.iife.min.js", "curves.js"), "samples": ("vendor/diff.min.js", "samples.js")}
"""The files of assets/page/ that each kind of widget needs, besides those of every page."""


def footnote(text: str) -> Text:
    """How figures were computed, which the page keeps folded."""
    return Text(text, "How to read this")


def to_plain(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, and in the place of a widget what stands for it without scripts."""
    return [part for block in _flatten(blocks) for part in (block.instead if isinstance(block, Widget) else [block])]


def write_page(blocks: list[Block], out: Path, name: str = "report", told: list[Block] | None = None) -> Path:
    """Write NAME.md (with `told`, of these alone), NAME.html and plots/ into `out`; the first block is the title.
    Returns the HTML's path."""
    parts = to_plain([*blocks, *(told or ())])
    pictures = {plot.name: draw(plot, out) for part in parts if isinstance(part, Figures) for plot in part.plots}
    for block in blocks:
        if isinstance(block, Widget) and block.rest:
            (out / "plots").mkdir(exist_ok=True)
            (out / "plots" / f"{block.name}.js").write_text(f'REST.{block.name} = "{_pack(block.rest)}";\n')
    (out / f"{name}.md").write_text(to_markdown(told or blocks) + "\n", encoding="utf-8")
    page = out / f"{name}.html"
    page.write_text(to_html(blocks, pictures), encoding="utf-8")
    return page


def to_markdown(blocks: list[Block]) -> str:
    """The blocks as GitHub reads them; no text in them becomes markup."""
    return "\n\n".join(map(_write_markdown, blocks))


def to_html(blocks: Sequence[Block], pictures: dict[str, Path], live: bool = False) -> str:
    """One self-contained page; its template escapes every text. `live`: it reloads itself every ten seconds."""
    from jinja2 import Environment, FileSystemLoader  # here, since a terminal's table needs none
    from markupsafe import Markup

    env = Environment(loader=FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                      finalize=lambda value: printable(value) if type(value) is str else value,
                      keep_trailing_newline=True)  # fmt: skip
    widgets = {block.kind for block in _flatten(blocks) if isinstance(block, Widget)}
    scripts = ["main.js", "tables.js", *(name for kind in sorted(widgets) for name in SCRIPTS[kind])]
    styles = ["report.css", *["page/vendor/uPlot.min.css"] * ("curves" in widgets)]
    return env.get_template("report.html.jinja").render(
        blocks=blocks,
        live=live,
        images={name: b64encode(path.read_bytes()).decode() for name, path in pictures.items()},
        styles=[Markup((ASSETS / name).read_text(encoding="utf-8")) for name in styles],
        scripts=[Markup((ASSETS / "page" / name).read_text(encoding="utf-8")) for name in scripts],
        kind_of=lambda block: type(block).__name__,
        mark=lambda text: Markup(re.sub("`(.+?)`", r"<code>\1</code>", escape(printable(text)))),
        pack=_pack,
    )


def _flatten(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks with those of columns in place of these."""
    for block in blocks:
        yield from _flatten(chain(*block.columns)) if isinstance(block, Columns) else [block]


def _pack(content: Any) -> str:
    """JSON, compressed, as letters that HTML leaves alone; the same bytes each time."""
    text = json.dumps(_clean(content), separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _clean(content: Any) -> Any:
    """The content with every text in it made printable."""
    if isinstance(content, dict):
        return {printable(key): _clean(value) for key, value in content.items()}
    if isinstance(content, list | tuple) and not {*map(type, content)} <= {float, type(None)}:
        return [_clean(value) for value in content]
    return printable(content) if isinstance(content, str) else content


def to_text(blocks: list[Block]) -> str:
    """Headings, tables and texts for a terminal."""
    lines = []
    for block in blocks:
        match block:
            case Heading(text=text):
                lines += [f"{text}:"]
            case Table(head=head, rows=rows):
                lines += align([head, *rows], range(1, len(head)))
            case Text(text=text):
                lines += textwrap.wrap(text, 100, break_on_hyphens=False)
            case Callout(title=title, text=text):
                lines += textwrap.wrap(f"{title} {text}", 100, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines)


def _write_markdown(block: Block) -> str:
    match block:
        case Heading(text, level, _):
            return f"{'#' * level} {escape_text(text)}"
        case Text(text=text):
            return _escape_paragraph(text)
        case Table(head, rows, title):
            rule = ["---:" if numeric else "---" for numeric in block.numeric]
            cells = [[escape_text(cell) for cell in row] for row in [head, *rows]]
            for place in block.marked:
                cells[place + 1][0] = f"**{cells[place + 1][0]}**"
            table = "\n".join("| " + " | ".join(row) + " |" for row in [cells[0], rule, *cells[1:]])
            summary = f"<details><summary>{escape(printable(title))}</summary>"
            return f"{summary}\n\n{table}\n\n</details>" if title else table
        case Figures(plots):
            return "\n\n".join(f"![{escape_text(plot.caption)}](plots/{plot.name}.png)" for plot in plots)
        case Code(text, language):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return f"{fence}{language}\n{printable(text)}\n{fence}"
        case Columns(columns):
            return to_markdown(list(chain(*columns)))
        case Widget(_, _, _, instead):
            return to_markdown(instead)
        case Callout(_, title, text):
            return f"> **{_escape_names(title)}** {_escape_names(text)}".rstrip()
    sides = [part for caption, text in block.sides for part in (Text(caption), Code(text))]
    return "\n\n".join([f"**{escape_text(block.title)}**", to_markdown([Code(block.prompt), *sides])])


def escape_text(text: str) -> str:
    """Escapes what could open a tag, an entity, a link, emphasis, a fence or a new cell."""
    return re.sub(r"([\\|<*`&~]|(?<![^\W_])_|_(?![^\W_])|\](?=[(:\[]))", r"\\\1", " ".join(printable(text).split()))


def _escape_names(text: str) -> str:
    """`escape_text`, but names between backticks stay as they are."""
    single = r"(?<!`)\\`(?!\\`)(?:(?!\\`).)+\\`(?!\\`)"
    return re.sub(single, lambda found: re.sub(r"\\(.)", r"\1", found[0]), escape_text(text))


def _escape_paragraph(text: str) -> str:
    """`escape_text`, and what would make the text a heading, a list, a quotation or a line."""
    text = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", escape_text(text))
    return re.sub(r"^(?=[-+](?:[\s-]|$)|[#>=])", r"\\", text)
