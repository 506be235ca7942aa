-- Why a mirror has to be filled anew, and how many rows its last fill had.
alter table headwater.mirrors
    add column reason text,
    add column filled_rows bigint,
    add column partitioned boolean not null default false;

-- The source's own types, and the keys that were deleted of each mirror.
create schema types;
create schema tombstones;
