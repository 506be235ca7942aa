-- headwater.emit: an event in the application's own transaction, with no table. It is written to
-- WAL as a logical message; capture publishes it to the topic <source>.outbox.<topic> when the
-- transaction has committed, in commit order with the changes of tables. The message's content is
-- one line of JSON, a line feed, and the payload as it stands in Kafka.

create function headwater.emit(
    topic text, key text, payload bytea, headers jsonb default null
) returns uuid language plpgsql volatile parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    id uuid := gen_random_uuid();
begin
    if topic is null or topic !~ '^[A-Za-z0-9_-]{1,100}$' then
        raise exception 'headwater.emit: % is no topic', coalesce(quote_literal(topic), 'NULL')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use 1 to 100 letters, digits, _ and -; the source and .outbox. go before it.';
    end if;
    if jsonb_typeof(headers) <> 'object' or exists (
        select from jsonb_each(case jsonb_typeof(headers) when 'object' then headers end) h
        where h.key in ('', 'id', 'position') or jsonb_typeof(h.value) <> 'string'
    ) then
        raise exception 'headwater.emit: headers is no JSON object of strings'
            using errcode = 'invalid_parameter_value',
                  hint = 'Write {"name": "text"}; id and position are set by Headwater.';
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

create function headwater.emit(
    topic text, key text, payload text, headers jsonb default null
) returns uuid language sql volatile parallel unsafe as $$
    select headwater.emit(topic, key, pg_catalog.convert_to(payload, 'UTF8'), headers)
$$;

create function headwater.emit(
    topic text, key text, payload jsonb, headers jsonb default null
) returns uuid language sql volatile parallel unsafe as $$
    select headwater.emit(topic, key, pg_catalog.convert_to(payload::text, 'UTF8'), headers)
$$;

create function headwater.emit(
    topic text, key text, payload json, headers jsonb default null
) returns uuid language sql volatile parallel unsafe as $$
    select headwater.emit(topic, key, pg_catalog.convert_to(payload::text, 'UTF8'), headers)
$$;

comment on function headwater.emit(text, text, bytea, jsonb) is
    'Publishes an event to Kafka when this transaction commits; NULL payload: a tombstone. '
    'Returns the id that the event has as a header.';

-- Every role may write logical messages anyway. Of the schema's tables this opens none.
do $$
begin
    grant usage on schema headwater to public;
exception when insufficient_privilege then
    raise notice 'the owner of schema headwater has to run: GRANT USAGE ON SCHEMA headwater TO ...';
end
$$;
