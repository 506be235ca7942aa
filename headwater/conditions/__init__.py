"""Conditions over published values: one language, for filters of the change stream and for alerts
on rows."""
