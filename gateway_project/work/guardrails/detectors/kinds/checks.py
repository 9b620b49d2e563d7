"""Checks of form, checksum and entropy. Each returns how many characters of a text are real, or 0."""

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from ipaddress import ip_address
from zlib import crc32

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
Check = Callable[[str], int]
_PLACEHOLDER = re.compile(r"(?i)example|changeme|your[_-]?|placeholder|xxxx|\*\*\*|dummy|<|\$\{|\{\{")


def check_if(holds: Callable[[str], bool]) -> Check:
    """The check that accepts all of a text or nothing."""
    return lambda text: len(text) if holds(text) else 0


_DIGITS = b"0123456789"
_VALUES = bytes.maketrans(_DIGITS, bytes(range(10)))
_NO_DIGITS = bytes(set(range(256)) - set(_DIGITS))
_DOUBLED = bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9, *range(10, 256)))  # twice a digit, the digits of that added up


def digits_of(text: str) -> list[int]:
    return list(_digit_values(text))


def _digit_values(text: str) -> bytes:
    return text.encode("latin-1", "replace").translate(_VALUES, _NO_DIGITS)


def entropy(text: str) -> float:
    """Bits a character, by the frequency of the characters."""
    size = len(text)
    return math.log2(size) - sum([count * math.log2(count) for count in Counter(text).values()]) / size


def is_random(bits: float) -> Check:
    """Accepts what has at least so many bits a character and is no placeholder."""
    return check_if(lambda text: entropy(text) >= bits and _PLACEHOLDER.search(text) is None)


def is_luhn(text: str) -> bool:
    digits = _digit_values(text)
    return (sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED))) % 10 == 0


def weighted_sum(digits: Sequence[int], weights: Sequence[int]) -> int:
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=False))


def base62_crc32(text: str) -> bool:
    """GitHub's and npm's tokens: the last 6 of 36 characters are the CRC32 of the others."""
    body = text.rpartition("_")[2]
    number, checksum = crc32(body[:-6].encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        checksum = BASE62[digit] + checksum
    return body[-6:] == checksum


def grafana_crc32(text: str) -> bool:
    """Service account tokens: the hexadecimal CRC32 of what is before the last underscore."""
    body, _, checksum = text.rpartition("_")
    return f"{crc32(body.encode()):08x}" == checksum


def is_jwt(text: str) -> bool:
    """Whether the header is a JSON object that names an algorithm."""
    header = text.partition(".")[0]
    try:
        members = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(members, dict) and "alg" in members


def is_discord_token(text: str) -> bool:
    """Whether the first part is the number of a user in base64."""
    user = text.partition(".")[0]
    try:
        return base64.urlsafe_b64decode(user + "=" * (-len(user) % 4)).isdigit()
    except binascii.Error:
        return False


_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_BECH32_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def is_bech32(text: str) -> bool:
    """The checksum of age's keys (BIP 173)."""
    prefix, _, data = text.lower().rpartition("1")
    values = [ord(one) >> 5 for one in prefix] + [0] + [ord(one) & 31 for one in prefix]
    checksum = 1
    for value in (*values, *map(_BECH32.index, data)):
        top, checksum = checksum >> 25, (checksum & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_BECH32_GENERATORS):
            checksum ^= generator if top >> bit & 1 else 0
    return checksum == 1


def is_iban(text: str) -> bool:
    """ISO 7064 mod 97-10, and the length that the country has."""
    number = text.replace(" ", "").replace("-", "").upper()
    if IBAN_LENGTHS.get(number[:2]) != len(number):
        return False
    return int("".join(str(int(one, 36)) for one in number[4:] + number[:4])) % 97 == 1


def is_card(text: str) -> bool:
    return is_luhn(text) and len(set(_digit_values(text))) > 1


def is_address(text: str) -> bool:
    """An IP address that may be somebody's."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast)


def is_date(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def is_written_date(text: str) -> bool:
    """A date in figures, whichever order, in a year in which people who live were born."""
    numbers = [int(one) for one in re.findall(r"\d+", text)]
    if len(numbers) < 3:
        return True  # the month is a word
    first, second, third = numbers
    year = first if first > 31 else third if third > 99 else 1900 + third
    if first > 31:
        return 1900 <= year <= 2030 and is_date(year, second, third)
    return 1900 <= year <= 2030 and (is_date(year, second, first) or is_date(year, first, second))


IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20, "LU": 20,
    "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15,
    "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24, "SI": 19,
    "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
}  # fmt: skip
