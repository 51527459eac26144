r"""Reads which choice a completion names, by its letter.

    >>> read_choice("I think (A) is wrong. Answer: b"), read_choice("A or B")
    ('B', None)

Of these the first that is found:

1. the completion is a letter alone, with signs around it;
2. the last box or `<answer>` that begins with a letter;
3. the last `The answer is B`, `Option: (b)` or `Answer - B`, or the last line that ends with `Therefore: B`;
4. `B is correct`, `Option B is the best answer` or `I would choose B`, if no two of these differ;
5. a line that begins with a letter, `B) Paris`, or that is `Option B`, if no two of these differ.

`a` and `i` are words, so a small letter needs a sign or the end of the line behind it. A letter of a list (`A or B`),
of a question or a condition (`if B is correct`), and one that is denied are not read.
"""

import re

# Of each pattern the one group that matches is the letter.
_OPEN = r"[*_\"'$ ]*+(?>(?:\\(?:boxed|text|textbf|textrm|mathrm|mathbf)\{ *+){0,3})[*_]*+"
_LETTER = (
    r"(?:[(\[]([A-Za-z])[)\]]|[(\[]?(?!I [a-z])([A-Z])(?![A-Za-z0-9'’]|-[A-Za-z0-9])"
    r"|([a-z])(?=[)\]}*_\"$:;]|\.?[ \t]*$|\.\s))"
)
_NO_LIST = r"(?![)\]*_\"]*+(?: ?\?|\s*+(?:,|/|&|and\b|or\b)\s*+[(\[*]*+(?:[A-HJ-Z](?![A-Za-z'’])|[a-z][)\]])))"
_NOUN, _SURELY = (
    r"(?:option|choice|answer|letter)",
    r"(?:(?:clearly|definitely|indeed|(?:most )?likely|therefore|thus) )?",
)

ALONE = re.compile(r"[\s*_\"'$(\[.-]*+([A-Za-z])[\s*_\"'$)\].:!-]*+")
BOXED = re.compile(
    rf"(?:\\(?:boxed|fbox|framebox)\{{|<answer>)\s*+{_OPEN}{_LETTER}(?! *+[-+*/^=<>](?!/)){_NO_LIST}", re.MULTILINE
)
SAID = re.compile(
    rf"(?<![A-Za-z])(?i:ans|answer|option|choice)[*_\"']*+(?: *+(?:[:=→]|(?:-+|–|—)>?(?= ))"
    rf"| +(?i:is|should be|would be|must be)\b:?(?! *+[ai][ \t]*+$)) *+(?i:{_SURELY}(?:the )?(?:{_NOUN} )?)"
    rf"{_OPEN}{_LETTER}{_NO_LIST}",
    re.MULTILINE,
)
CONCLUDED = re.compile(
    rf"(?<![A-Za-z])(?i:therefore|thus|hence|so)(?:[*_]*+:{_OPEN}{_LETTER}|,? [*_]*+(?:\(([A-Za-z])\)|([A-HJ-Z])\.))"
    r"[)\]*_. \t]*+$",
    re.MULTILINE,
)
ASSERTED = re.compile(
    rf"(?:^|[.!?;:,]|\b(?i:{_NOUN}|so|therefore|thus|hence|but|that|think|believe)\b) *+{_OPEN}{_LETTER}[)\]*_\"]*+"
    rf" (?i:is|must be|should be|would be) (?i:{_SURELY}(?:the )?(?:(?:only|correct|right|best|final) )*{_NOUN}\b"
    rf"|{_SURELY}(?:correct|right)\b)(?! *+(?:\?|(?i:only|if|when|unless|in that)\b))",
    re.MULTILINE,
)
CHOSEN = re.compile(
    rf"\bI(?: would| will| must|['’]d|['’]ll)? (?:choose|chose|select|selected|pick|picked|go with|opt for)"
    rf" (?i:(?:the )?(?:{_NOUN} )?){_OPEN}{_LETTER}(?=[)\]*_\"]*+(?:[.,;:!]|[ \t]*+$| (?:because|since|as|due)\b))"
    rf"{_NO_LIST}",
    re.MULTILINE,
)
BEGINS = re.compile(
    r"^[ \t]*+(?:[*(\[_]*+([A-Z])(?:[)\].:*_]|[ \t]*+$)|[*_]*+\(?([a-z])\)"
    rf"|[*_]*+(?i:(?:(?:the|my|final|correct|best) )*{_NOUN}) [*_(\[]*+([A-Z])[)\]*_.]*+[ \t]*+$"
    r"|(?<![\s\S])([A-HJ-Z]),? (?:because|since)\b)(?![)\]*_]*+ (?:is|was) (?:not|wrong|incorrect|false)\b)",
    re.MULTILINE,
)
DOUBTED = re.compile(
    r"(?i:(?<![a-z])(?:if|whether|suppose|assume|assuming|unless|not|never|false)|n['’]t)"
    rf"(?i: (?:that|think|believe|say|true|would|is|the|my|correct|right|best|final|{_NOUN}))*[ *_(\"]*$"
)
LISTED = re.compile(r"[A-Z][)\]]*+ *+(?:,|/|&|(?:and|or|nor)\b) *+[*_(\[]*+$")
REACH = 60
"""How far before a letter signs of doubt are looked for."""


def read_choice(completion: str) -> str | None:
    """The letter, A to Z; None if the completion names none, or several."""
    if alone := ALONE.fullmatch(completion):
        return alone[1].upper()
    for patterns in ((BOXED,), (SAID, CONCLUDED), (ASSERTED, CHOSEN), (BEGINS,)):
        matches = [match for pattern in patterns for match in pattern.finditer(completion)]
        matches = [match for match in matches if match.re is BEGINS or not _is_doubted(match)]
        letters = [match[match.lastindex or 0].upper() for match in sorted(matches, key=re.Match.start)]
        if letters and (BOXED in patterns or SAID in patterns or len({*letters}) == 1):
            return letters[-1]
    return None


def _is_doubted(match: re.Match[str]) -> bool:
    start, letter = match.start(), match.start(match.lastindex or 0)
    before = match.string[max(0, start - REACH) : start]
    return bool(DOUBTED.search(before) or LISTED.search(match.string[max(0, letter - REACH) : letter]))
