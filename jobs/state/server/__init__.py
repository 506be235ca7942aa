"""The PostgreSQL that holds the state: embedded or given, its migrations, locks, sessions."""
