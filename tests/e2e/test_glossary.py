"""The glossary has every term that pages introduce, and every term of the field that they use."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
PAGES = {
    path.name: path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name != "glossary.md"
}
NO_TERMS = {
    "all",
    "all pairs",
    "all people",
    "as published",
    "chosen",
    "clearly",
    "drawn",
    "explore",
    "first",
    "from",
    "high",
    "honest",
    "its own",
    "low",
    "new",
    "not",
    "one",
    "pairs",
    "place",
    "proves",
    "random",
    "reports in each round",
    "slice a word by weights",
    "together",
    "up",
    "variation-ratio reduction",
    "without",
}
"""Words in italics that are stressed, name a column or a tab, or quote a paper."""
FIELD = [
    " ".join(term.split())
    for term in re.split(
        ";",
        """AES; Amplification; Antecedent; Benjamini-Hochberg; Beta-binomial; Bias; Binomial; Bit;
    Black-box audit; Bloom filter; Bonferroni; Bootstrap; Categorical value;
    Central differential privacy; Chi-square; Chow-Liu tree; Classifier; Client; Clipping; Clone;
    Collector; Compiled loops;
    Composition; Confidence interval; Correlation; Covariance; Coverage; Credible interval; Degrees
    of freedom; Delta; Delta method; Device; Differential privacy; Divergence; Driver; Empirical
    Bayes; Entropy; Epsilon; Estimator; False alarm; False discovery; Fisher information; Gaussian;
    Geometric mean; Hadamard response; Hash; Histogram; Holm; Idempotent; Independent; Interval;
    Jackknife; k-RR; Kurtosis; Lasso; Least squares; Likelihood; Linear program; Local differential
    privacy; Logarithm; Markov chain; Maximum entropy; Maximum likelihood; Mean squared error;
    Median; Mixture; Moment; Monte Carlo; Multinomial; Mutual information; Naive Bayes; Normal
    distribution; Notice; Null hypothesis; Odds; Outlier; P-value; Percentage point; Poisoning;
    Posterior; Prior; Proxy; Quantile; Randomised response; Regression; Repetition; Replica; Root
    mean squared error; Row group; Saddlepoint; Sampling error; Secure aggregation; Sensitivity;
    Shrinkage; Shuffling; Significance; Simplex; Sketch; Standard deviation; Standard error; TLS;
    Token; Total variation; Unary encoding; Unbiased; Uniform; Variance; Wald test; Weight; Worker""",
    )
]
"""Terms of statistics, privacy and web services, whether pages use them or not."""


def terms_of(glossary: str) -> set[str]:
    """What the glossary explains."""
    return set(entries_of(glossary))


def entries_of(glossary: str) -> list[str]:
    """Its terms, in their order."""
    entries = re.findall(r"^\*\*(.+?)\.\*\*$", glossary, re.MULTILINE)
    return [term.lower() for entry in entries for term in entry.split(", ")]


@cache
def prose(page: str) -> str:
    """A page without code and addresses."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)", " ", page, flags=re.M | re.S)


@cache
def words(page: str) -> str:
    """The words of a page in small letters, with one space around each."""
    return f" {' '.join(re.findall(r'[a-z0-9-]+', prose(page).lower()))} "


@cache
def introduced(page: str) -> set[str]:
    """The words in italics, which is how pages introduce a term."""
    terms = re.findall(r"(?<![*\w])\*([A-Za-z][A-Za-z -]{1,30})\*(?![*\w])", prose(page))
    return {word.lower() for word in terms}


def singular(word: str) -> str:
    return re.sub(r"ies$", "y", word) if word.endswith("ies") else word.removesuffix("s")


def explained(word: str, terms: set[str]) -> bool:
    """Whether a word, its singular, or an entry that begins with it is there."""
    return bool({word, singular(word)} & terms) or any(term.startswith(f"{word} ") for term in terms)


def uses(page: str, term: str) -> bool:
    """Whether a page has a term of the field in its prose."""
    return f" {term.lower()} " in words(page) or f" {term.lower()}s " in words(page)


def unexplained(pages: dict[str, str], terms: set[str]) -> dict[str, set[str]]:
    """The terms of pages that the glossary lacks."""
    missing = {
        name: {word for word in introduced(page) - NO_TERMS if not explained(word, terms)}
        | {term for term in FIELD if uses(page, term) and not explained(term.lower(), terms)}
        for name, page in pages.items()
    }
    return {name: words for name, words in missing.items() if words}


def test_the_glossary_explains_every_term_of_the_pages():
    terms = terms_of(GLOSSARY)
    assert unexplained(PAGES, terms) == {}
    italic = set().union(*map(introduced, PAGES.values()))
    assert italic >= NO_TERMS, "words that pages no longer stress"
    assert len(italic - NO_TERMS) >= 35
    assert sum(any(uses(page, term) for page in PAGES.values()) for term in FIELD) >= 80


def test_a_term_without_an_entry_is_noticed():
    page = "A *frobnication* is drawn.\nIts kurtosis and `bootstrap` matter.\n```text\nlasso\n```\n"
    assert unexplained({"new.md": page}, terms_of(GLOSSARY)) == {"new.md": {"frobnication", "Kurtosis"}}
    whole = GLOSSARY.split("\n\n")
    for term in ("Interval", "Secure aggregation", "Holm", "Half range"):
        (entry,) = (part for part in whole if part.startswith(f"**{term}"))
        lacking = GLOSSARY.replace(f"{entry}\n\n", "")
        used = {
            word.lower() for words in unexplained(PAGES, terms_of(lacking)).values() for word in words
        }
        assert any(word.startswith(term.lower()[:4]) for word in used), term


def test_entries_are_in_alphabetical_order_and_explained_once():
    entries = entries_of(GLOSSARY)
    assert len(entries) > 200
    assert len(entries) == len(set(entries))
    assert entries == sorted(entries, key=lambda term: term.split()[0])
    empty = re.findall(r"^\*\*(.+)\.\*\*\n(?![A-Z*`])", GLOSSARY, re.MULTILINE)
    assert empty == [], "an entry begins with a sentence"
    pointers = re.findall(r"^See \*(.+?)\*\.$", GLOSSARY, re.MULTILINE)
    assert {word.lower() for word in pointers} <= set(entries)
    assert len(pointers) >= 8


def test_the_glossary_has_every_noun_of_the_concepts():
    nouns = re.findall(r"^\| (\*\*.+?\*\*) \|", PAGES["concepts.md"], re.MULTILINE)
    named = {name.lower() for cell in nouns for name in re.findall(r"\*\*(.+?)\*\*", cell)}
    assert len(named) > 35
    plural = {"reports", "answers"}
    assert named - set(entries_of(GLOSSARY)) - plural == set()
