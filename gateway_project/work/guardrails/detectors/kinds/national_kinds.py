"""The numbers by which countries know people. Those whose form says little need a word before them that does."""

from collections.abc import Callable

from gateway_project.work.guardrails.detectors.kinds import national_ids as ids
from gateway_project.work.guardrails.detectors.kinds.checks import check_if, is_luhn
from gateway_project.work.guardrails.detectors.kinds.scanner import DIGITS, Kind, words_before


def _number(name: str, form: str, check: Callable[[str], bool], *words: str) -> Kind:
    return Kind(name, form, DIGITS, check_if(check), words_before(*words) if words else None)


NATIONAL_KINDS = (
    Kind("ssn", r"\d{3}[ -]\d{2}[ -]\d{4}\b", DIGITS, check_if(ids.is_ssn)),
    _number("ssn", r"\d{9}\b", ids.is_ssn, "ssn", "social security(?: number)?"),
    _number("br_cpf", r"\d{3}\.\d{3}\.\d{3}-\d{2}\b", ids.is_cpf),
    _number("br_cpf", r"\d{11}\b", ids.is_cpf, "cpf"),
    _number("ca_sin", r"\d{3}[ -]?\d{3}[ -]?\d{3}\b", ids.is_sin, "sin", "social insurance(?: number)?", "nas"),
    _number("ch_ahv", r"756\.?\d{4}\.?\d{4}\.?\d{2}\b", ids.is_ahv),
    _number("cn_id", r"[1-8]\d{16}[\dXx]\b", ids.is_chinese_id),
    _number(
        "de_tax_id",
        r"\d{2}[ ]?\d{3}[ ]?\d{3}[ ]?\d{3}\b",
        ids.is_german_tax_id,
        "steuer-?id(?:entifikationsnummer)?",
        "steuer-?idnr",
        "steuernummer",
        "idnr",
        "tax id",
        "tin",
    ),
    Kind("es_dni", r"\d{8}[ -]?[A-HJ-NP-TV-Za-hj-np-tv-z]\b", r"\d{8}[ -]?[A-Za-z]", check_if(ids.is_dni)),
    Kind("es_dni", r"[XYZxyz][ -]?\d{7}[ -]?[A-HJ-NP-TV-Za-hj-np-tv-z]\b", r"[XYZxyz][ -]?\d{7}", check_if(ids.is_dni)),
    _number(
        "fr_nir",
        r"[12][ .]?\d{2}[ .]?(?:0[1-9]|[1-9]\d)[ .]?(?:\d{2}|2[ABab])[ .]?\d{3}[ .]?\d{3}[ .]?\d{2}\b",
        ids.is_nir,
    ),
    Kind(
        "it_codice_fiscale",
        r"[A-Za-z]{6}\d{2}[A-Ea-eHLMPR-Thlmpr-t]\d{2}[A-Za-z]\d{3}[A-Za-z]\b",
        r"[A-Za-z]{6}\d{2}[A-Za-z]\d{2}",
        check_if(ids.is_codice_fiscale),
    ),
    _number("nl_bsn", r"\d{4}\.?\d{2}\.?\d{3}\b", ids.is_bsn, "bsn", "burgerservicenummer", "sofinummer"),
    _number("pl_pesel", r"\d{11}\b", ids.is_pesel, "pesel"),
    Kind("se_personnummer", r"(?:19|20)?\d{6}[-+]\d{4}\b", r"\d{6,8}[-+]\d{4}", check_if(ids.is_personnummer)),
    _number("se_personnummer", r"(?:19|20)?\d{10}\b", ids.is_personnummer, "personnummer", "pnr", "samordningsnummer"),
    Kind("fi_hetu", r"\d{6}[-+A-FYXWVU]\d{3}[0-9A-Ya-y]\b", r"\d{6}[-+A-FYXWVU]\d{3}", check_if(ids.is_hetu)),
    _number(
        "no_fodselsnummer",
        r"\d{6} ?\d{5}\b",
        ids.is_fodselsnummer,
        "fødselsnummer",
        "fodselsnummer",
        "personnummer",
        "fnr",
    ),
    _number("pt_nif", r"[1235689]\d{2} ?\d{3} ?\d{3}\b", ids.is_nif, "nif", "contribuinte"),
    Kind(
        "be_rijksregisternummer",
        r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}\b",
        r"\d{2}\.\d{2}\.\d{2}-",
        check_if(ids.is_rijksregisternummer),
    ),
    _number(
        "be_rijksregisternummer",
        r"\d{11}\b",
        ids.is_rijksregisternummer,
        "rijksregisternummer",
        "registre national",
        "niss",
        "insz",
    ),
    _number("in_aadhaar", r"[2-9]\d{3}[ -]?\d{4}[ -]?\d{4}\b", ids.is_aadhaar, "aadhaar", "aadhar", "uidai", "uid"),
    _number("tr_kimlik", r"[1-9]\d{10}\b", ids.is_kimlik, "kimlik(?: no)?", "tckn", "tc no"),
    Kind(
        "mx_curp", r"[A-Z][AEIOUX][A-Z]{2}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d\b", r"[A-Z]{4}\d{6}[HMX]", check_if(ids.is_curp)
    ),
    _number("gb_nhs", r"\d{3}[ -]?\d{3}[ -]?\d{4}\b", ids.is_nhs_number, "nhs(?: number| no)?"),
    Kind("gb_nino", r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b", r"[A-Z]{2} ?\d{2} ?\d{2}"),
    _number(
        "za_id", r"\d{2}[01]\d[0-3]\d{5}[01]\d{2}\b", is_luhn, "id(?: number| no)?", "south african", "identity number"
    ),
)
