"""What belongs to persons: addresses, accounts, cards and the numbers by which countries know them."""

from gateway_project.work.guardrails.detectors.kinds.checks import (
    Check,
    check_if,
    digits_of,
    is_address,
    is_card,
    is_iban,
    is_written_date,
)
from gateway_project.work.guardrails.detectors.kinds.scanner import DIGITS, Kind, words_before

_MONTH = (
    r"(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)


_BIRTH = words_before(
    "born", "birth", "birthday", "birthdate", "dob", "d.o.b", "geboren", "geburtsdatum", "geb", "né le", "née le",
    "date de naissance", "nacid[oa]", "fecha de nacimiento", "nat[oa]",
    "data di nascita", "nascimento", "geboortedatum",
)  # fmt: skip
_PHONE = words_before(
    "phones?", "telephone", "tel", "mobile", "cell", "call", "fax", "whatsapp", "sms", "telefon", "handy", "téléphone",
    "teléfono", "telefono", "telefone", "ring", "dial", "reach",
)  # fmt: skip


def _has_digits(least: int, most: int) -> Check:
    return check_if(lambda text: least <= len(digits_of(text)) <= most)


PERSONAL_KINDS = (
    Kind(
        "email",
        r"[\w.%+'-]{1,64}@(?:[0-9A-Za-z-]{1,63}\.){1,6}[A-Za-z]{2,24}\b",
        r"[\w.%+'-]+@[0-9A-Za-z-]+\.[A-Za-z0-9]",
    ),
    Kind(
        "iban",
        r"[A-Z]{2}\d{2}(?:[ -]?[0-9A-Z]{4}){2,7}(?:[ -]?[0-9A-Z]{1,4})?\b",
        r"[A-Z]{2}\d{2}[ -]?[0-9A-Z]{4}",
        check_if(is_iban),
    ),
    Kind(
        "card",
        r"(?:4\d{3}|5[1-5]\d{2}|2[2-7]\d{2}|6\d{3}|35\d{2}|8[16]\d{2})(?:[ -]?\d{4}){3}\b",
        DIGITS,
        check_if(is_card),
    ),
    Kind("card", r"3[47]\d{2}[ -]?\d{6}[ -]?\d{5}\b", DIGITS, check_if(is_card)),
    Kind("card", r"3(?:0[0-5]|[689]\d)\d[ -]?\d{6}[ -]?\d{4}\b", DIGITS, check_if(is_card)),
    Kind("card", r"(?:4|5|6)\d{12,18}\b", DIGITS, check_if(is_card)),
    Kind(
        "ip",
        r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?:\.\d{1,3})?\b",
        r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d",
        check_if(is_address),
    ),
    Kind(
        "ip",
        r"[0-9A-Fa-f]{1,4}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{1,4}\b",
        r"[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]",
        check_if(is_address),
    ),
    Kind(
        "date_of_birth",
        r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\b",
        r"\d{1,4}[./-]\d{1,2}[./-]\d\d",
        check_if(is_written_date),
        _BIRTH,
    ),
    Kind(
        "date_of_birth",
        rf"\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTH}\.?,? \d{{4}}\b",
        rf"\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTH}",
        len,
        _BIRTH,
    ),
    Kind("date_of_birth", rf"{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}\b", rf"{_MONTH}\.? \d", len, _BIRTH),
    Kind(
        "phone",
        r"\+\d{1,3}(?:[ .-]?(?:\(\d{1,4}\)|\d{1,5})){2,6}\b",
        r"\+\d[\d ().-]{5}",
        _has_digits(8, 15),
        begins_word=False,
    ),
    Kind("phone", r"\(\d{2,5}\) ?\d{3,4}[ .-]?\d{3,5}\b", r"\(\d{2,5}\) ?\d{3}", begins_word=False),
    Kind("phone", r"(?:1[ .-])?[2-9]\d{2}[.-][2-9]\d{2}[.-]\d{4}\b", DIGITS),
    Kind("phone", r"\d(?:[ ./-]?\d){6,13}\b", r"\d(?:[ ./-]?\d){6}", len, _PHONE),
)
