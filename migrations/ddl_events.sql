-- On request (headwater init --ddl-events; needs a superuser): what DDL makes of published tables,
-- as logical messages in the same transaction. Whatever goes wrong in here is a warning: the
-- application's DDL must never fail for it.
--
-- The functions run with a superuser's rights, the trigger's own by SECURITY DEFINER and those that
-- it calls with it. So they stand in a schema of a superuser, where no other role can drop or make
-- one: whoever owns the schema headwater could put its own function in the place of one there.
drop event trigger if exists headwater_ddl;
drop event trigger if exists headwater_drop;
-- Those of earlier versions.
drop function if exists headwater.ddl_event();
drop function if exists headwater.ddl_said(text, oid, int);
drop function if exists headwater.ddl_columns(oid);

-- What the trigger's messages begin with: any role may write messages with their prefix. It stays
-- the same when the trigger is installed again, for messages that capture has yet to read.
do $$
declare
    kept text;
begin
    if exists (select from pg_class c join pg_roles r on r.oid = c.relowner
               where c.oid = to_regclass('headwater_ddl.secret') and c.relkind = 'r' and r.rolsuper)
    then
        execute 'select value from headwater_ddl.secret' into kept;
    end if;
    perform set_config('headwater.ddl_secret', coalesce(kept, gen_random_uuid()::text), true);
end
$$;
drop schema if exists headwater_ddl cascade;
create schema headwater_ddl;
create table headwater_ddl.secret as select current_setting('headwater.ddl_secret') as value;
select set_config('headwater.ddl_secret', '', true);
do $$
declare
    reader text;
begin
    -- The role of capture need not own the schema: it owns what `headwater init` made in it.
    for reader in
        select nspowner::regrole::text from pg_namespace where nspname = 'headwater'
        union
        select relowner::regrole::text from pg_class where oid = to_regclass('headwater.migration')
    loop
        execute 'grant usage on schema headwater_ddl to ' || reader;
        execute 'grant select on headwater_ddl.secret to ' || reader;
    end loop;
end
$$;

create function headwater_ddl.columns(tbl oid)
returns jsonb language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_agg(jsonb_build_object(
        'attnum', a.attnum, 'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
        'typmod', a.atttypmod, 'not_null', a.attnotnull,
        'default', pg_get_expr(d.adbin, d.adrelid),
        'missing', case when a.atthasmissing then (a.attmissingval::text::text[])[1] end
    ) order by a.attnum)
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = tbl and a.attnum > 0 and not a.attisdropped
$$;

create function headwater_ddl.said(tag text, tbl oid, renamed int)
returns text language sql stable set search_path = pg_catalog, pg_temp as $$
    select jsonb_build_object(
        'tag', tag, 'oid', c.oid::bigint, 'schema', n.nspname, 'table', c.relname,
        'renamed', renamed, 'columns', headwater_ddl.columns(c.oid))::text
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.oid = tbl and c.relkind in ('r', 'p') and c.relpersistence = 'p'
      and n.nspname <> 'headwater' and n.nspname !~ '^pg_'
$$;

create function headwater_ddl.message(document text)
returns bytea language sql stable set search_path = pg_catalog, pg_temp as $$
    select convert_to(s.value || e'\n' || document, 'UTF8') from headwater_ddl.secret s
$$;

-- With its owner's rights: the role that runs the DDL need not be one that may write messages.
create function headwater_ddl.event()
returns event_trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    said text[];
    messages bytea[];
    message bytea;
begin
    begin
        if not exists (select from pg_replication_slots
                       where plugin = 'pgoutput' and database = current_database()) then
            return;
        end if;
        if tg_event = 'sql_drop' then
            select array_agg(jsonb_build_object(
                'tag', tg_tag, 'oid', d.objid::bigint, 'schema', d.schema_name,
                'table', d.object_name, 'renamed', null, 'columns', null)::text)
            into said
            from pg_event_trigger_dropped_objects() d
            where d.object_type = 'table' and not d.is_temporary and d.schema_name <> 'headwater';
        else
            select array_agg(headwater_ddl.said(tg_tag, d.objid, d.renamed)) into said
            from (select objid, max(objsubid) filter (where object_type = 'table column') as renamed
                  from pg_event_trigger_ddl_commands()
                  where classid = 'pg_class'::regclass and not in_extension group by objid) d;
        end if;
        select array_agg(headwater_ddl.message(document)) into messages
        from unnest(said) document where document is not null;
    exception when others then
        raise warning 'headwater: a DDL event was not recorded: %', sqlerrm;
        return;
    end;
    -- Not in the block above, which is a subtransaction: decoding does not keep a message of one
    -- ahead of the row that follows it in WAL.
    foreach message in array coalesce(messages, '{}') loop
        perform pg_logical_emit_message(true, 'headwater.ddl', message);
    end loop;
end
$$;

create event trigger headwater_ddl on ddl_command_end execute function headwater_ddl.event();
create event trigger headwater_drop on sql_drop execute function headwater_ddl.event();

-- How the tables stand when it begins: what came before is known by comparing.
select pg_catalog.pg_logical_emit_message(true, 'headwater.ddl', headwater_ddl.message(
    headwater_ddl.said('BASELINE', t.oid, null)))
from (select distinct c.oid
      from pg_catalog.pg_publication_tables p
      join pg_catalog.pg_namespace n on n.nspname = p.schemaname
      join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = p.tablename) t;
