"""What PostgreSQL says in a replication session: pgoutput's bytes as values. Pure."""
