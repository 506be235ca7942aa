-- Why views that are declared, and that readers see nothing of, cannot be built.
create table headwater.unbuilt_views (
    name text primary key,
    error text not null,
    since timestamptz not null default now()
);
