"""Names: stored in one form of Unicode, compared in any case, and clear to readers."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import lookups
from django.db.models.sql.compiler import SQLCompiler

# Printable for Python, but invisible: fillers, blanks and selectors of scripts.
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
# Separates a name key from what makes it unique; unprintable, so that no name contains it.
KEY_SEPARATOR = "\x1f"
LONGEST_FOLD = 3  # the most characters that one becomes when its case is folded
SQLITE_UPPER = "gateway_upper"


def missing_names(rows: models.QuerySet, names: Iterable[str]) -> list[str]:
    """Those of the names that no row has, in their order."""
    names_of_rows = set(rows.values_list("name", flat=True))
    return [name for name in names if name not in names_of_rows]


def is_clear(name: str) -> bool:
    """Whether all of a name is visible: no blanks around it, no unprintable and no invisible characters."""
    return name == name.strip() and name.isprintable() and not INVISIBLE & set(name) and not _stray_selector(name)


def require_clear(name: str, noun: str = "A name") -> None:
    """Raise Django's ValidationError for a name that a reader could not tell from another; `noun` is the subject."""
    if not is_clear(name):
        raise ValidationError(f"{noun} must not begin or end with blanks, and all its characters must be visible.")


def _stray_selector(name: str) -> bool:
    """Whether a variation selector follows a character without variants, where it is invisible."""
    pairs = zip("\0" + name, name, strict=False)
    return any(character in SELECTORS and not _has_variants(before) for before, character in pairs)


def _has_variants(character: str) -> bool:
    symbol = unicodedata.category(character) in ("So", "Sm")
    return symbol or unicodedata.name(character, "").startswith("CJK UNIFIED")


def compose_name(name: str) -> str:
    """The name in the form in which it is stored (NFC): names that look the same are the same text."""
    return unicodedata.normalize("NFC", name)


def name_key(name: str) -> str:
    """The key that names are compared by: the same for names that differ in case, width or composition only."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)  # a folded letter may be decomposed


def upper_case(text: str) -> str:
    """The text in upper case, letter by letter as in PostgreSQL: "ß", whose upper case is two letters, stays."""
    upper = text and text.upper()
    if not text or len(upper) == len(text):
        return upper
    return "".join([large if len(large := letter.upper()) == 1 else letter for letter in text])


class _AsText(models.CharField):
    """A CharField for the database and for migrations."""

    def deconstruct(self) -> tuple[str, str, list[object], dict[str, object]]:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.CharField", list(args), options


class SearchedField(_AsText):
    """A text whose parts can be searched in any case, on every database."""


class SearchedText(models.TextField):
    """The same for a long text; neither the text nor the search term is normalized."""

    def deconstruct(self) -> tuple[str, str, list[object], dict[str, object]]:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.TextField", list(args), options


class ContainsInAnyCase(lookups.IContains):
    """Finds a part of the text, normalized; SQLite's own functions fold the case of ASCII letters only."""

    def get_prep_lookup(self) -> object:
        return compose_name(self.rhs) if isinstance(self.rhs, str) else self.rhs

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, Sequence[object]]:
        upper = models.Func(self.lhs, function=SQLITE_UPPER, output_field=models.CharField())
        return lookups.Contains(upper, upper_case(self.rhs)).as_sql(compiler, connection)


class ContainsInName(ContainsInAnyCase):
    """The same, for texts without an index of their upper case."""

    def process_lhs(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, lhs: models.Expression | None = None
    ) -> tuple[str, list[str | int] | tuple[str | int, ...]]:
        """With an ASCII term, the upper case of ASCII letters alone, which PostgreSQL finds in half the time."""
        sql, parameters = super().process_lhs(compiler, connection, lhs)
        if connection.vendor == "postgresql" and isinstance(self.rhs, str) and self.rhs.isascii():
            sql = f'{sql.removesuffix(")")} COLLATE "C")'
        return sql, parameters


class ContainsAsWritten(ContainsInAnyCase):
    """Finds a part of a long text; an ASCII term needs no function of ours on SQLite, which is faster."""

    def get_prep_lookup(self) -> object:
        return self.rhs

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, Sequence[object]]:
        search = self.as_sql if str(self.rhs).isascii() else super().as_sqlite
        return search(compiler, connection)


SearchedField.register_lookup(ContainsInName)
SearchedText.register_lookup(ContainsAsWritten)


def add_to_sqlite(connection: BaseDatabaseWrapper, **signal: object) -> None:
    """Add the function for upper case to a new SQLite connection; PostgreSQL has its own."""
    if connection.vendor == "sqlite":
        connection.connection.create_function(SQLITE_UPPER, 1, upper_case, deterministic=True)


class NameField(SearchedField):
    """A name, normalized when it is stored and when it is searched."""

    def to_python(self, value: object) -> object:
        name = super().to_python(value)
        return compose_name(name) if isinstance(name, str) else name


class NameKeyField(_AsText):
    """The key of the row's name `of`, written whenever the row is saved; search terms are folded likewise.

    A key that was made unique with KEY_SEPARATOR stays as it is while the name does.
    """

    def __init__(self, *args: Any, of: str = "", **options: Any) -> None:
        self.of = of
        super().__init__(*args, **options)

    def clone(self) -> "NameKeyField":
        field = super().clone()  # type: ignore[misc]  # django-stubs lack Field.clone()
        field.of = self.of
        return field

    def clean(self, value: object, row: models.Model | None) -> str:
        assert row is not None, "full_clean() of a row calls this"
        return self._key(row)

    def pre_save(self, row: models.Model, add: bool) -> str:
        key = self._key(row)
        setattr(row, self.attname, key)
        return key

    def _key(self, row: models.Model) -> str:
        key, present = name_key(getattr(row, self.of)), getattr(row, self.attname) or ""
        return present if present.partition(KEY_SEPARATOR)[0] == key else key

    def get_prep_value(self, value: object) -> object:
        prepared = super().get_prep_value(value)
        return name_key(prepared) if isinstance(prepared, str) else prepared


class FoldedContains(lookups.Contains):
    """Finds a part of the name in any case; both sides are folded here, since no database folds all letters."""

    def get_prep_lookup(self) -> object:
        return name_key(self.rhs) if isinstance(self.rhs, str) else self.rhs


NameKeyField.register_lookup(FoldedContains, "icontains")
