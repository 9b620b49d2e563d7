"""The numbers by which countries know people, with their check digits."""

from gateway_project.work.guardrails.detectors.kinds.checks import digits_of, is_date, is_luhn, weighted_sum


def is_ssn(text: str) -> bool:
    """USA: the areas, groups and serials that are issued; it has no check digit."""
    area, group, serial = text[:3], text[-7:-4].strip("- "), text[-4:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_cpf(text: str) -> bool:
    """Brazil."""
    digits = digits_of(text)
    if len(set(digits)) == 1:
        return False
    return all(
        weighted_sum(digits, range(size + 1, 1, -1)) * 10 % 11 % 10 == digits[size]
        for size in (9, 10)
    )  # fmt: skip


def is_sin(text: str) -> bool:
    """Canada."""
    return text[0] not in "08" and is_luhn(text)


def is_ahv(text: str) -> bool:
    """Switzerland: an EAN-13."""
    digits = digits_of(text)
    return -weighted_sum(digits[:12], (1, 3) * 6) % 10 == digits[12]


def is_chinese_id(text: str) -> bool:
    """China: ISO 7064 mod 11-2 and a date of birth."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    check = "10X98765432"[weighted_sum(digits_of(text[:17]), weights) % 11]
    return text[17].upper() == check and is_date(int(text[6:10]), int(text[10:12]), int(text[12:14]))


def is_german_tax_id(text: str) -> bool:
    """Germany: ISO 7064 mod 11,10; of the first ten digits one stands twice or three times."""
    digits = digits_of(text)
    product = 10
    for digit in digits[:10]:
        product = ((digit + product) % 10 or 10) * 2 % 11
    return len(set(digits[:10])) in (8, 9) and digits[0] != 0 and (11 - product) % 10 == digits[10]


def is_dni(text: str) -> bool:
    """Spain: DNI, and NIE of foreigners."""
    number = text.replace("-", "").replace(" ", "").upper()
    digits = {"X": "0", "Y": "1", "Z": "2"}.get(number[0], number[0]) + number[1:-1]
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1]


def is_nir(text: str) -> bool:
    """France: 97 less the number modulo 97; Corsica has letters."""
    number = text.replace(" ", "").replace(".", "").upper()
    body = number[:13].replace("2A", "19", 1) if "A" in number else number[:13].replace("2B", "18", 1)
    return 97 - int(body) % 97 == int(number[13:])


_ODD_VALUES = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_ODD = {character: _ODD_VALUES[int(character, 36) % 10 if character.isdigit() else ord(character) - 65]
        for character in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"}  # fmt: skip


def is_codice_fiscale(text: str) -> bool:
    """Italy."""
    code = text.upper()
    even = sum(int(one) if one.isdigit() else ord(one) - 65 for one in code[1:15:2])
    return chr(65 + (even + sum(_ODD[one] for one in code[0:15:2])) % 26) == code[15]


def is_bsn(text: str) -> bool:
    """The Netherlands: the test of 11."""
    digits = digits_of(text)
    return any(digits) and weighted_sum(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def is_pesel(text: str) -> bool:
    """Poland: the century is in the month."""
    digits = digits_of(text)
    month = int(text[2:4])
    year = (1900, 2000, 2100, 2200, 1800)[month // 20] + int(text[:2])
    check = -weighted_sum(digits[:10], (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10
    return check == digits[10] and is_date(year, month % 20, int(text[4:6]))


def is_personnummer(text: str) -> bool:
    """Sweden: a date and a check digit by Luhn; coordination numbers add 60 to the day."""
    digits = "".join(map(str, digits_of(text)))[-10:]
    day = int(digits[4:6])
    return is_luhn(digits) and is_date(2000 + int(digits[:2]) % 4, int(digits[2:4]), day - 60 if day > 60 else day)


def is_hetu(text: str) -> bool:
    """Finland."""
    check = "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(text[:6] + text[7:10]) % 31]
    return check == text[10].upper() and is_date(2000, int(text[2:4]), int(text[:2]))


def is_fodselsnummer(text: str) -> bool:
    """Norway: two check digits."""
    digits = digits_of(text)
    first = -weighted_sum(digits, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11
    second = -weighted_sum(digits, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    day = int(text[:2])
    return [first, second] == digits[9:] and is_date(2000, int(text[2:4]), day - 40 if day > 40 else day)


def is_nif(text: str) -> bool:
    """Portugal."""
    digits = digits_of(text)
    return -weighted_sum(digits[:8], range(9, 1, -1)) % 11 % 10 == digits[8]


def is_rijksregisternummer(text: str) -> bool:
    """Belgium: modulo 97, with a 2 before the number for those born since 2000."""
    digits = "".join(map(str, digits_of(text)))
    return any(97 - int(century + digits[:9]) % 97 == int(digits[9:]) for century in ("", "2"))


_VERHOEFF = tuple(
    tuple(int(one) for one in row)
    for row in ("0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432",
                "7659821043", "8765932104", "9876543210")
)  # fmt: skip
_PERMUTATIONS = tuple(
    tuple(int(one) for one in row)
    for row in ("0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415",
                "7046913258")
)  # fmt: skip


def is_aadhaar(text: str) -> bool:
    """India: Verhoeff."""
    check = 0
    for place, digit in enumerate(reversed(digits_of(text))):
        check = _VERHOEFF[check][_PERMUTATIONS[place % 8][digit]]
    return check == 0


def is_kimlik(text: str) -> bool:
    """Turkey: two check digits."""
    digits = digits_of(text)
    tenth = (sum(digits[0:9:2]) * 7 - sum(digits[1:8:2])) % 10
    return [tenth, sum(digits[:10]) % 10] == digits[9:]


def is_curp(text: str) -> bool:
    """Mexico: letters count 10 to 36, with Ñ after N."""
    letters = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    values = [letters.index(one) for one in text.upper()[:17]]
    return -weighted_sum(values, range(18, 1, -1)) % 10 == int(text[17])


def is_nhs_number(text: str) -> bool:
    """United Kingdom."""
    digits = digits_of(text)
    return any(digits) and -weighted_sum(digits[:9], range(10, 1, -1)) % 11 == digits[9]
