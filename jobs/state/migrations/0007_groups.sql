-- Counts and sums of the groups of views that are kept by the change (jobs.state.group_tables).
create schema groups;
