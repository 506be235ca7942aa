"""Values of columns in Debezium's form: ``encoder`` chooses by type. Pure."""
