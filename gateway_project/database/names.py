"""Names: kept in one form of Unicode, compared in any case, and none that a reader could not tell from another."""

import unicodedata
from typing import Any

from django.db import models
from django.db.models import lookups

# Printable, as Python has it, and yet nothing is seen of them: fillers, blanks and selectors of scripts.
INVISIBLE = frozenset(
    map(
        chr,
        [
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F),
            *(0x2800, 0x3164, 0xFFA0, 0x13441, 0x13442, 0x16FE4, 0x1D159),
        ],
    )
)
SELECTORS = frozenset(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
# Unprintable, so that no name holds it.
APART = "\x1f"
LONGEST_FOLD = 3  # characters that one may become
SQLITE_UPPER = "gateway_upper"


def is_clear(name: str) -> bool:
    """Whether a reader sees all of a name: no blanks around it, and nothing that is unprintable or invisible."""
    return name == name.strip() and name.isprintable() and not INVISIBLE & set(name) and not _stray_selector(name)


def _stray_selector(name: str) -> bool:
    """Whether a variation selector follows something that has no variants: there it is not seen."""
    pairs = zip("\0" + name, name, strict=False)
    return any(character in SELECTORS and not _has_variants(before) for before, character in pairs)


def _has_variants(character: str) -> bool:
    symbol = unicodedata.category(character) in ("So", "Sm")
    return symbol or unicodedata.name(character, "").startswith("CJK UNIFIED")


def one_form(name: str) -> str:
    """The name in the one form in which it is kept: what looks the same is the same text (NFC)."""
    return unicodedata.normalize("NFC", name)


def name_key(name: str) -> str:
    """What a name is compared by: the same for all that differ in case, in width or in how they are put together."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)  # a folded letter may have come apart


def upper_case(text: str) -> str:
    """The text in upper case, letter by letter as PostgreSQL has it: "ß", which would be two, stays as it is."""
    upper = text and text.upper()
    if not text or len(upper) == len(text):
        return upper
    return "".join([large if len(large := letter.upper()) == 1 else letter for letter in text])


class _AsText(models.CharField):
    """To the database, and so to migrations, no more than a text."""

    def deconstruct(self) -> tuple[str, str, list, dict]:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.CharField", args, options


class SearchedField(_AsText):
    """A text of which a part is found in any case, whichever database keeps it."""


class SearchedText(models.TextField):
    """The same for a long text, which is kept as somebody wrote it and searched for what is written."""

    def deconstruct(self) -> tuple[str, str, list, dict]:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.TextField", args, options


class InAnyCase(lookups.IContains):
    """A part of the text, in one form; of SQLite's own functions none knows the case of letters beyond ASCII."""

    def get_prep_lookup(self) -> Any:
        return one_form(self.rhs) if isinstance(self.rhs, str) else self.rhs

    def as_sqlite(self, compiler: Any, connection: Any) -> Any:
        upper = models.Func(self.lhs, function=SQLITE_UPPER, output_field=models.CharField())
        return lookups.Contains(upper, upper_case(self.rhs)).as_sql(compiler, connection)


class InAnyCaseAsWritten(InAnyCase):
    """A part of a long text; without letters beyond ASCII SQLite looks for it by itself, which is quicker."""

    def get_prep_lookup(self) -> Any:
        return self.rhs

    def as_sqlite(self, compiler: Any, connection: Any) -> Any:
        search = self.as_sql if str(self.rhs).isascii() else super().as_sqlite
        return search(compiler, connection)


SearchedField.register_lookup(InAnyCase)
SearchedText.register_lookup(InAnyCaseAsWritten)


def add_to_sqlite(connection: Any, **signal: Any) -> None:
    """Give a new connection the upper case that PostgreSQL has by itself."""
    if connection.vendor == "sqlite":
        connection.connection.create_function(SQLITE_UPPER, 1, upper_case, deterministic=True)


class NameField(SearchedField):
    """A name in one form, in whichever it is stored or asked for."""

    def to_python(self, value: Any) -> Any:
        found = super().to_python(value)
        return one_form(found) if isinstance(found, str) else found


class NameKeyField(_AsText):
    """The key of the row's name `of`, written whenever the row is; whatever is asked for is folded likewise.

    A key that was set APART from another user's stays so as long as the name does.
    """

    def __init__(self, *args: Any, of: str = "", **options: Any) -> None:
        self.of = of
        super().__init__(*args, **options)

    def clone(self) -> "NameKeyField":
        made = super().clone()
        made.of = self.of
        return made

    def clean(self, value: Any, row: models.Model) -> str:
        return self._key(row)

    def pre_save(self, row: models.Model, add: bool) -> str:
        key = self._key(row)
        setattr(row, self.attname, key)
        return key

    def _key(self, row: models.Model) -> str:
        key, present = name_key(getattr(row, self.of)), getattr(row, self.attname) or ""
        return present if present.partition(APART)[0] == key else key

    def get_prep_value(self, value: Any) -> Any:
        prepared = super().get_prep_value(value)
        return name_key(prepared) if isinstance(prepared, str) else prepared


class Holds(lookups.Contains):
    """A part of the name in any case: both sides are folded already, which no database does for all letters."""

    def get_prep_lookup(self) -> Any:
        return name_key(self.rhs) if isinstance(self.rhs, str) else self.rhs


NameKeyField.register_lookup(Holds, "icontains")
