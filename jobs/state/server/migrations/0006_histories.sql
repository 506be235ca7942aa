-- As what a view's store keeps what rows were, '' where it does not. Their changes wait in tables of
-- the schema "queue", each with the number of the columns that it was made for.
alter table headwater.views add column history text not null default '';
create schema queue;
create table headwater.history_columns (
    view_id int not null references headwater.views on delete cascade,
    shape int generated always as identity,
    columns text not null,
    primary key (view_id, shape)
);

-- Who waits for a record that could not be applied: its mirror, the histories of the table, or both.
alter table headwater.faulty_records
    add column of_mirror boolean not null default true,
    add column of_history boolean not null default false;
