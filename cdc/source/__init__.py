"""PostgreSQL: its sessions, its catalog, the publication, the slot and the replication stream."""
