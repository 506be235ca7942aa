"""Values that are CloudEvents, as Debezium's ``CloudEventsConverter`` makes them of events."""
