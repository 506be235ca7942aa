-- Columns that `source.columns` treats, by attnum: a column is still treated under another name, and
-- after its entry is gone, until the configuration publishes it explicitly.
create table headwater.treated_column (
    source text not null,
    table_oid oid not null,
    attnum int not null,
    treatment text not null,
    primary key (source, table_oid, attnum)
);
