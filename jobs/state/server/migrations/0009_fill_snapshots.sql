-- The transactions that a mirror's fill saw, in the form of pg_current_snapshot. NULL where it is not
-- known.
alter table headwater.mirrors add fill_snapshot text;
