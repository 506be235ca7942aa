-- Kafka's id of the topic that the offset is of: one that was recreated has another. NULL where it
-- is not known.
alter table headwater.stream add topic_id text;
