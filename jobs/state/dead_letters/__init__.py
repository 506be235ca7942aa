"""Views' dead letters in the state database: keys and records that are parked."""
