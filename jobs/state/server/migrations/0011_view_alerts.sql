-- Alerts over views. `old_rows` says whether the changes of a generation are logged with the row as
-- it was before.
alter table headwater.feeds add old_rows boolean not null default false;
do $$
declare
    log text;
begin
    for log in select tablename from pg_catalog.pg_tables where schemaname = 'feed_log' loop
        execute format('alter table feed_log.%I add was text', log);
    end loop;
end
$$;

-- Which generation readers of a view have seen, one after the other: an alert reads all of their logs.
create table headwater.feed_shows (
    number bigint generated always as identity primary key,
    name text not null,
    epoch text not null
);
insert into headwater.feed_shows (name, epoch) select name, epoch from headwater.feeds where shown;

-- `epoch` is of the log that an alert reads now.
create table headwater.view_alerts (
    alert text primary key,
    view text not null,
    epoch text not null
);

-- The next change to decide in each log that an alert has read, or will where readers go back to it;
-- `note` is what else there is to tell of it.
create table headwater.view_alert_places (
    alert text not null references headwater.view_alerts on delete cascade,
    epoch text not null,
    number bigint not null,
    note text not null default '',
    noted_at timestamptz,
    primary key (alert, epoch)
);
