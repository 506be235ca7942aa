-- Records of the stream that no mirror could take. The mirror has the row's last good version until
-- a later record of the key is whole and can be taken.
create table headwater.faulty_records (
    mirror_id int not null references headwater.mirrors on delete cascade,
    key text not null,
    record text not null,
    cause text not null,
    since timestamptz not null default now(),
    primary key (mirror_id, key, record)
);
