"""Figures that the papers print, for the systems and data that are compared here."""

from __future__ import annotations

Figures = dict[str, float]


def _at(values: str, names: str) -> Figures:
    """Return figures by metric from two lines of words."""
    return dict(zip(names.split(), map(float, values.split()), strict=True))


_P, _PSP = "P@1 P@3 P@5", "PSP@1 PSP@3 PSP@5"
_SHORT = "PSP@1 PSP@5 P@1 P@5"

GLAS: dict[str, Figures] = {  # Table 1, AmazonCat-13K; "base" is GLaS, λ = 10, ρ = 0.8, B = 4096, d = 1024, ReLU
    name: {"P@1": value}
    for name, value in {
        "base": 94.21,
        "regulariser none": 92.34,
        "regulariser spread-out": 93.34,
        "regulariser gravity": 93.42,
        "λ = 1": 93.68,
        "λ = 100": 93.75,
        "ρ = 1.0": 93.39,
        "ρ = 0.6": 94.08,
        "half the batch": 93.98,
        "a quarter of the batch": 94.04,
        "d = 512": 93.82,
        "d = 256": 93.24,
        "linear": 91.77,
    }.items()
}
GLAS_GAPS = {"base": 4.56, "regulariser none": 6.89}  # Table 2, AmazonCat-13K: P@1 in training less P@1 in test

DXML: dict[str, dict[str, Figures]] = {  # Table 2
    "bibtex": {
        "DXML": _at("66.03 40.21 27.51", _P),
        "SLEEC": _at("65.08 39.64 28.87", _P),
        "FastXML": _at("63.42 39.23 28.86", _P),
        "1-vs-All": _at("62.62 39.09 28.79", _P),
        "KNN": _at("57.04 34.38 25.44", _P),
    },
    "delicious": {
        "DXML": _at("68.17 62.02 57.45", _P),
        "SLEEC": _at("67.59 61.38 56.56", _P),
        "FastXML": _at("69.61 64.12 59.27", _P),
        "1-vs-All": _at("65.02 58.88 53.28", _P),
        "KNN": _at("64.95 58.89 54.11", _P),
    },
}
MNN: dict[str, dict[str, Figures]] = {  # Table 2; P@3 and P@5 on bibtex contradict the paper's own nDCG@5 of 62.31
    "bibtex": {
        "MNN": _at("65.21 43.61 33.48", _P),
        "SLEEC": _at("65.08 39.64 28.87", _P),
        "PfastreXML": _at("63.46 39.22 29.14", _P),
        "1-vs-all": _at("62.62 39.09 28.79", _P),
    },
    "delicious": {
        "MNN": _at("68.88 62.44 57.85", _P),
        "SLEEC": _at("67.59 61.38 56.56", _P),
        "PfastreXML": _at("67.13 62.33 58.62", _P),
        "1-vs-all": _at("65.02 58.88 53.28", _P),
    },
}
RANKNET: dict[str, Figures] = {  # Tables 2 and 5, EUR-Lex
    "Bonsai": _at("82.75 69.44 58.25", _P) | _at("36.91 44.89 49.46", _PSP),
    "RankNet (Bonsai)": _at("81.46 68.53 56.79", _P) | _at("45.06 49.48 51.82", _PSP),
    "Parabel": _at("82.20 68.70 57.53", _P) | _at("36.42 44.08 48.46", _PSP),
    "RankNet (Parabel)": _at("80.67 68.34 56.29", _P) | _at("44.21 48.76 50.63", _PSP),
}
TAUG: dict[str, Figures] = {  # Tables 4 and 6, EUR-Lex, with dense features
    "baseline": _at("40.10 47.91 51.85", _PSP),
    "TAug-d": _at("43.52 50.45 53.94", _PSP),
    "TAug-s": _at("42.81 49.94 53.27", _PSP),
    "TAug-ds": _at("44.20 50.58 53.97", _PSP),
    "RankNet": _at("48.44 52.94 55.69", _PSP),
    "RankNet+TAug": _at("51.86 54.29 55.45", _PSP),
}
DECAF: dict[str, Figures] = {  # Tables 1, 4, 5 and 6, LF-AmazonTitles-131K
    "DECAF": _at("30.85 41.42 38.4 18.65", _SHORT),
    "Parabel": _at("23.27 32.14 32.6 15.61", _SHORT),
    "Parabel + metadata": _at("25.89 34.83 33.6 15.84", _SHORT),
    "Bonsai": _at("24.75 34.86 34.11 16.63", _SHORT),
    "Bonsai + metadata": _at("26.82 36.63 34.83 16.67", _SHORT),
    "DiSMEC": _at("26.25 37.15 35.14 17.24", _SHORT),
    "DiSMEC + metadata": _at("27.19 38.17 35.52 17.52", _SHORT),
    "HNSW shortlist": _at("29.55 39.17 36.7 17.78", _SHORT),
    "Parabel shortlist": _at("24.88 31.21 32.13 14.73", _SHORT),
    "FFT": _at("25.5 33.38 32.42 15.43", _SHORT),
    "8K": _at("29.07 38.7 36.29 17.52", _SHORT),
    "no-init": _at("29.86 41.04 37.79 18.57", _SHORT),
    "ẑ¹": _at("28.02 38.38 33.5 17.09", _SHORT),
    "ẑ²": _at("27.32 38.05 36 17.65", _SHORT),
    "lite": _at("29.75 40.36 37.26 18.29", _SHORT),
}
