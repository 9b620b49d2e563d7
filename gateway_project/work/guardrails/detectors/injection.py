"""The type `injection`: sentences by which a text tries to take over a model. Heuristics, in several languages.

They look at form alone, and miss what says the same in other words: docs/guardrails.md has their precision and recall.
"""

from collections.abc import Mapping

from gateway_project.work.guardrails.detectors.parameters import Parameters
from gateway_project.work.guardrails.detectors.patterns import Patterns

_GAP = r"[\s\w,'’-]{0,40}?"  # a few words of the same sentence
_PRIOR = r"(?:previous|prior|above|earlier|preceding|foregoing|existing|original|initial|system|your)"
_ORDERS = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|commands?|orders?"
    r"|restrictions?|polic(?:y|ies)|programming|context|messages?)"
)

HEURISTICS: Mapping[str, tuple[str, ...]] = {
    "override": (
        rf"\b(?:ignore|disregard|forget|bypass|override|overrule|neglect|skip)\s{_GAP}\b{_PRIOR}\s{_GAP}\b{_ORDERS}\b",
        r"\b(?:ignore|disregard|forget)\s+(?:all|any|everything|anything)\s+(?:of\s+)?(?:that\s+)?(?:(?:i|you|we|was|were)\s[\w\s]{0,20}?)?(?:above|before|previously|earlier|instructions?|prior)\b",
        rf"\b(?:do\s+not|don'?t|stop|never)\s+(?:follow|obey|adher\w*|comply|listen\w*|following|obeying)\s{_GAP}\b{_PRIOR}\s{_GAP}\b{_ORDERS}\b",
        r"\b(?:new|updated|real|actual)\s+(?:system\s+)?(?:instructions?|prompt|orders?)\s*(?::|from\s+(?:the\s+)?(?:admin|developer|system|openai|anthropic))",
        r"\b(?:vergiss|ignoriere?|missachte)\s[\s\wäöüß,]{0,40}?\b(?:anweisungen|vorgaben|regeln|instruktionen|befehle)\b",
        r"\b(?:ignore[zs]?|oublie[zs]?)\s[\s\w,éèàç]{0,40}?\b(?:instructions|consignes|règles|directives)\b",
        r"\b(?:ignora|olvida|omite|dimentica|ignore|esqueça)\s[\s\w,]{0,40}?\b(?:instrucciones|reglas|istruzioni|regole|instruções|regras)\b",
        r"(?:忽略|无视|忘记).{0,12}(?:指令|指示|提示|规则)",
        r"(?:игнорируй|забудь|игнорируйте|забудьте)\s.{0,30}(?:инструкции|указания|правила)",
    ),
    "role": (
        r"\byou\s+are\s+(?:now|no\s+longer)\s+(?:(?:a|an|in|the|going\s+to\s+be)\s+)?[\w\s,-]{0,40}?\b(?:dan|unrestricted|unfiltered|uncensored|jailbroken|evil|god\s*mode|developer\s+mode|bound|restricted|limited|without\s+(?:any\s+)?(?:rules|restrictions|limits|filters?))\b",
        r"\b(?:developer|dev|debug|god|admin(?:istrator)?|sudo|dan|jailbreak|unrestricted|maintenance)\s+mode\s+(?:is\s+)?(?:now\s+)?(?:enabled|activated?|on|engaged|unlocked)\b",
        r"\b(?:enter|enable|activate|switch\s+(?:in)?to)\s+(?:the\s+)?(?:developer|dan|god|jailbreak|unrestricted|sudo)\s+mode\b",
        r"\bdo\s+anything\s+now\b",
        r"\b(?:pretend|act|behave|respond|answer)\s(?:to\s+be\s|as\s+if\s|as\s|like\s|that\s)?[\w\s,-]{0,40}?\b(?:no|without|free\s+(?:of|from))\s+(?:any\s+)?(?:ethical\s+|moral\s+|safety\s+|content\s+)?(?:rules|restrictions|guidelines|limitations|limits|filters?|constraints|censorship)\b",
    ),
    "prompt_leak": (
        r"\b(?:reveal|show|print|repeat|display|output|disclose|leak|tell\s+me|give\s+me|write\s+out|recite|dump|expose|what\s+(?:is|are|was|were))\s[\w\s,'’-]{0,40}?\b(?:system\s+(?:prompt|message|instructions?)|(?:hidden|initial|original|secret|internal|confidential)\s+(?:prompt|instructions?|rules)|your\s+(?:prompt|instructions|programming))\b",
        r"\b(?:repeat|print|output|copy)\s[\w\s,'’-]{0,30}?\b(?:everything|all|the\s+(?:text|words|sentences?|lines?))\s[\w\s]{0,20}?\b(?:above|before\s+this|prior\s+to\s+this)\b",
        r"\b(?:zeig|nenne|verrate?|gib)\s[\s\wäöüß,]{0,40}?\b(?:systemprompt|system-prompt|systemanweisung(?:en)?|systemnachricht)\b",
    ),
    "delimiter": (
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|end_header_id|eot_id)\|>",
        r"\[/?INST\]|<</?SYS>>",
        r"</?(?:system|system_prompt|instructions?)>\s*(?:you|ignore|new|the|now|do)\b",
        r"(?:^|\n)\s{0,4}(?:#{2,4}|-{3,}|={3,})\s{0,4}(?:system|new\s+instructions?|end\s+of\s+(?:prompt|instructions?|context|document))\b",
        r"(?:^|\n)\s{0,4}(?:system|assistant)\s*(?:\((?:admin|override|root)\)|override)\s*:",
    ),
    "hidden_text": (r"[\x{E0020}-\x{E007E}]{8}",),
    "exfiltration": (
        r"\b(?:send|post|forward|upload|exfiltrate|transmit|append|include|e-?mail)\s[\w\s,'’-]{0,40}?\b(?:conversation|chat\s+history|history|system\s+prompt|secrets?|passwords?|credentials?|api\s+keys?|user\s+data|tokens?)\s[\w\s,'’-]{0,30}?\b(?:to|in|as|at)\s[\w\s'’-]{0,20}?(?:https?://|www\.|the\s+url|an?\s+image|\w+@\w)",
        r"\b(?:decode|decrypt|unscramble|rot13|base64)\s[\w\s,'’-]{0,40}?\band\s+(?:then\s+)?(?:execute|follow|obey|run|perform|do)\b",
    ),
}  # fmt: skip


def compile_injection(members: Mapping[str, object]) -> Patterns:
    kinds = Parameters(members, names=("kinds",)).choices("kinds", HEURISTICS)
    patterns = [(name, pattern) for name in kinds for pattern in HEURISTICS[name]]
    return Patterns([pattern for _, pattern in patterns], ignore_case=True, names=[name for name, _ in patterns])
