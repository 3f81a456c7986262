"""Workbooks written by hand, part by part: also such as no program writes."""

from __future__ import annotations

import zipfile
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"

STYLES = (0, 14, 22, 21, 164, 165, 166, 999)
"""The number formats of the cells that `write_book` writes: of style i it is number i."""

CODES = {164: 'yyyy\\-mm\\-dd;@" h"', 165: "[h]:mm:ss", 166: '0.00" dry"'}


class C(NamedTuple):
    """A cell: its reference, its text, its kind and its style; a shared text is written as such."""

    r: str | None
    text: str | None
    t: str | None = None
    s: str | None = None


class Book:
    """The rows of a sheet, as XML, and the texts that they share."""

    def __init__(self):
        self.shared = []

    def cell(self, one):
        attributes = "".join(
            f" {name}={quoteattr(value)}"
            for name, value in (
                ("r", one.r),
                ("s", one.s),
                ("t", "s" if one.t == "share" else one.t),
            )
            if value is not None
        )
        if one.text is None:
            return f"<c{attributes}/>"
        text = escape(one.text, {"\r": "&#13;"})
        if one.t == "inlineStr":
            return f"<c{attributes}><is><t>{text}</t><rPh><t>aid</t></rPh></is></c>"
        if one.t == "share":
            self.shared.append(one.text)  # where it stands at an odd place, in two pieces
            text = str(len(self.shared) - 1)
        return f"<c{attributes}><f>1+1</f><v>{text}</v></c>"

    def row(self, cells, number=None):
        where = "" if number is None else f' r="{number}"'
        return f"<row{where}>{''.join(map(self.cell, cells))}</row>"

    def shared_xml(self):
        def one(place, text):
            if place % 2:
                half = len(text) // 2
                pieces = (escape(piece, {"\r": "&#13;"}) for piece in (text[:half], text[half:]))
                return (
                    "<si>" + "".join(f"<r><rPr/><t>{piece}</t></r>" for piece in pieces) + "</si>"
                )
            text = escape(text, {"\r": "&#13;"})
            return f'<si><t xml:space="preserve">{text}</t><rPh sb="0"><t>aid</t></rPh></si>'

        return "".join(one(place, text) for place, text in enumerate(self.shared))


def write_book(path, rows, shared="", *, sheet="S", parts=None, from_1904=False, dimension="A1:B2"):
    """Write a workbook with one sheet, whose rows and shared texts are XML."""
    links = "".join(
        f'<Relationship Id="r{i}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for i, (kind, target) in enumerate(
            (
                ("worksheet", "worksheets/sheet1.xml"),
                ("sharedStrings", "/xl/sharedStrings.xml"),
                ("styles", "styles.xml"),
            )
        )
    )
    codes = "".join(
        f"<numFmt numFmtId='{number}' formatCode={quoteattr(code)}/>"
        for number, code in CODES.items()
    )
    formats = "".join(f'<xf numFmtId="{number}"/>' for number in STYLES)
    made = {
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="x" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">{links}</Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><workbookPr date1904="{int(from_1904)}"/><sheets><sheet name={quoteattr(sheet)} r:id="r0"/></sheets></workbook>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><dimension ref="{dimension}"/><sheetData>{rows}</sheetData></worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{shared}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><numFmts>{codes}</numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs>{formats}</cellXfs></styleSheet>',
    } | (parts or {})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in made.items():
            if content is not None:
                archive.writestr(name, content)


def write_table(path, rows, **options):
    """Write a plain table, its first row of names: texts are shared, numbers are numbers."""
    book = Book()
    written = [
        book.row(
            [
                C(None, str(value), "share" if isinstance(value, str) else None)
                if value is not None
                else C(None, None)
                for value in row
            ],
            number,
        )
        for number, row in enumerate(rows, 1)
    ]
    write_book(path, "".join(written), book.shared_xml(), **options)
