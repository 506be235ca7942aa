"""The change stream: a table's rows at one LSN, then its changes, to many clients."""
