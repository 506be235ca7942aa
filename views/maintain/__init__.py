"""Any SELECT over mirrors kept by dirty keys: the plan for it. Pure."""

from views.maintain.indexes import Index
from views.maintain.mirror import MirrorColumn, MirrorTable
from views.maintain.plan import Gate, KeyQuery, ViewPlan, plan_view

__all__ = ["Gate", "Index", "KeyQuery", "MirrorColumn", "MirrorTable", "ViewPlan", "plan_view"]
