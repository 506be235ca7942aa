"""Events, batches and logs for tests."""
