"""Alerts on rows: changes that meet a condition are sent to a webhook."""
