-- The rows that readers of a view's change stream begin with, and the changes that follow: of a
-- generation each a table of its own, v<id>.
create schema feed_rows;
create schema feed_log;

-- One row a generation whose changes are kept. `epoch` tells its log from every other one; `shown`
-- says whether its store is what readers of the view see. `last_seq` and `trimmed` number the newest
-- change and the newest one that is no longer kept, 0 where there is none; `entries` counts those
-- that are. `lsn` is of the position under which the store was written last.
create table headwater.feeds (
    view_id int primary key references headwater.views on delete cascade,
    name text not null,
    epoch text not null,
    shown boolean not null default false,
    columns jsonb not null,
    last_seq bigint not null default 0,
    trimmed bigint not null default 0,
    entries bigint not null default 0,
    lsn bigint not null default 0
);
create unique index on headwater.feeds (name) where shown;
