"""Plan: every decision about a run, once, with its reason."""

from dope.planning.plan import Decision, Plan, plan

__all__ = ["Decision", "Plan", "plan"]
