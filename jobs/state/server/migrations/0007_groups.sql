-- Counts and sums of the groups of views that are kept by the change (jobs.state.groups.tables).
create schema groups;
