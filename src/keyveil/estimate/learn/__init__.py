"""Learning from released statistics: rules, trees, Bayes and cubes, from the laws of a tally alone."""

from .bayes import ChowLiu, NaiveBayes
from .cube import Cube
from .exact_statistics import ExactEvidence
from .rules import Rule, rules
from .tree import DecisionTree

__all__ = ["ChowLiu", "Cube", "DecisionTree", "ExactEvidence", "NaiveBayes", "Rule", "rules"]
