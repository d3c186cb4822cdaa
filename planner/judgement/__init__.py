"""What an expert would not sign without a word said."""

from planner.judgement.concerns import Concern as Concern
from planner.judgement.concerns import concerns_of as concerns_of
