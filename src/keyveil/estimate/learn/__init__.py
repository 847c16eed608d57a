"""What released statistics are for: rules, trees, Bayes and cubes, from a tally's laws alone."""

from .bayes import ChowLiu, NaiveBayes
from .cube import Cube
from .exact_statistics import ExactEvidence
from .rules import Rule, rules
from .tree import DecisionTree

__all__ = ["ChowLiu", "Cube", "DecisionTree", "ExactEvidence", "NaiveBayes", "Rule", "rules"]
