"""Learning from released statistics: rules, trees, Bayes and cubes, from the laws of a tally alone."""

from .bayes import NaiveBayes
from .chow_liu import ChowLiu, Edge
from .cube import Cube
from .exact_statistics import ExactEvidence
from .rules import Rule, Rules, rules
from .tree import DecisionTree

__all__ = [
    "ChowLiu",
    "Cube",
    "DecisionTree",
    "Edge",
    "ExactEvidence",
    "NaiveBayes",
    "Rule",
    "Rules",
    "rules",
]
