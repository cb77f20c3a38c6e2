"""Plan: every decision about a run, once, with its reason."""

from dope.planning.decide import plan, plan_holding, plan_searching
from dope.planning.plans import Decision, Plan

__all__ = ["Decision", "Plan", "plan", "plan_holding", "plan_searching"]
