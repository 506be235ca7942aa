-- Rows of a snapshot that are too large for Kafka and are in the topic of dead letters instead
-- (capture.oversized); `row_count` does not count them.
alter table headwater.snapshot_chunk
    add dead_letters bigint not null default 0 check (dead_letters >= 0);
alter table headwater.snapshot_table
    add dead_letters bigint not null default 0 check (dead_letters >= 0);
