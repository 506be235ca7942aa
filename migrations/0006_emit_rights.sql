-- headwater.emit is for roles that were given it, for topics that the configuration names, and for
-- events that Kafka can take. `headwater init` writes capture.emit_topics into the table.
create table headwater.emit_topic (
    source text not null,
    name text not null,
    primary key (source, name)
);
grant select on headwater.emit_topic to public;

create or replace function headwater.emit(
    topic text, key text, payload bytea, headers jsonb default null
) returns uuid language plpgsql volatile parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    id uuid := gen_random_uuid();
    largest_key constant int := 32768;
    largest_headers constant int := 32768;
    largest_payload constant int := 16000000;
begin
    if topic is null or topic !~ '^[A-Za-z0-9_-]{1,100}$' then
        raise exception 'headwater.emit: % is no topic', coalesce(quote_literal(topic), 'NULL')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use 1 to 100 letters, digits, _ and -; the source and .outbox. go before it.';
    end if;
    if not exists (select from headwater.emit_topic t where t.name = topic) then
        raise exception 'headwater.emit: % is none of capture.emit_topics', quote_literal(topic)
            using errcode = 'invalid_parameter_value',
                  hint = 'Add it there, run `headwater init`, and start capture again.';
    end if;
    if jsonb_typeof(headers) <> 'object' or exists (
        select from jsonb_each(case jsonb_typeof(headers) when 'object' then headers end) h
        where h.key in ('', 'id', 'position', 'commit_ms') or jsonb_typeof(h.value) <> 'string'
    ) then
        raise exception 'headwater.emit: headers is no JSON object of strings'
            using errcode = 'invalid_parameter_value',
                  hint = 'Write {"name": "text"}; id, position and commit_ms are set by Headwater.';
    end if;
    if octet_length(key) > largest_key or octet_length(headers::text) > largest_headers
        or octet_length(payload) > largest_payload then
        raise exception 'headwater.emit: a key of %, headers of % and a payload of % bytes',
            coalesce(octet_length(key), 0), coalesce(octet_length(headers::text), 0),
            coalesce(octet_length(payload), 0)
            using errcode = 'program_limit_exceeded',
                  hint = format('They may have %s, %s and %s bytes: put large content elsewhere and emit '
                                'where it is.', largest_key, largest_headers, largest_payload);
    end if;
    -- Kafka takes . and _ for the same in names of topics. Most databases have no such schema.
    if exists (select from pg_namespace where nspname ^@ 'outbox') and exists (
        select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname ^@ 'outbox' and c.relkind in ('r', 'p')
          and translate(regexp_replace(n.nspname || '.' || c.relname, '[^A-Za-z0-9._-]', '_', 'g'),
                        '.', '_') = 'outbox_' || topic
    ) then
        raise exception 'headwater.emit: % is the topic of a table', quote_literal(topic)
            using errcode = 'invalid_parameter_value', hint = 'Choose another name.';
    end if;
    perform pg_logical_emit_message(
        true, 'headwater.outbox',
        convert_to(jsonb_build_object('id', id, 'topic', topic, 'key', key, 'headers', headers,
                                      'null', payload is null)::text || e'\n', 'UTF8')
        || coalesce(payload, '')
    );
    return id;
end
$$;

-- Who may emit is the owner's decision: GRANT USAGE ON SCHEMA headwater TO the application's role.
do $$
begin
    revoke usage on schema headwater from public;
exception when insufficient_privilege then
    raise notice 'the owner of schema headwater has to run: REVOKE USAGE ON SCHEMA headwater FROM PUBLIC';
end
$$;
