-- Why a mirror has to be filled anew, how many rows its last fill had, and which columns of the
-- table it does not have, each with the reason.
alter table headwater.mirrors
    add column reason text,
    add column filled_rows bigint,
    add column partitioned boolean not null default false,
    add column left_out jsonb not null default '[]';

-- The source's own types, and the keys that were deleted of each mirror.
create schema types;
create schema tombstones;
