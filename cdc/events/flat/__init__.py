"""Values that are rows alone, as Debezium's ``ExtractNewRecordState`` makes them of events."""
