-- The airline's own database, as an application would have it: Headwater only reads it.
-- Columns that merely repeat others (year, month, day, hour, minute) are folded into dates.

create table public.airlines (
    carrier text primary key,
    name text not null
);

create table public.airports (
    faa text primary key,
    name text not null,
    lat double precision not null,
    lon double precision not null,
    alt_ft integer not null,
    utc_offset_h integer not null,
    dst char(1) not null,
    tzone text
);

-- The last four columns are what operations keep current: where each aircraft is now.
create table public.planes (
    tailnum text primary key,
    year integer,
    type text not null,
    manufacturer text not null,
    model text not null,
    engines smallint not null,
    seats smallint not null,
    speed integer,
    engine text not null,
    status text not null default 'parked',
    airport text,
    flight_id bigint,
    seen_at timestamptz
);

create table public.weather (
    origin text not null references public.airports (faa),
    time_hour timestamptz not null,
    temp_f numeric(5, 2),
    dewp_f numeric(5, 2),
    humid numeric(5, 2),
    wind_dir integer,
    wind_speed_mph double precision,
    wind_gust_mph double precision,
    precip_in numeric(4, 2) not null,
    pressure_mb numeric(6, 1),
    visib_mi real not null,
    primary key (origin, time_hour)
);

-- No foreign keys on tailnum and dest: the data names 721 aircraft and 4 airports that the other
-- tables do not hold. Times are local, and 24:00 is a time that occurs.
create table public.flights (
    id bigint primary key,
    flight_date date not null,
    carrier text not null references public.airlines (carrier),
    flight integer not null,
    tailnum text,
    origin text not null references public.airports (faa),
    dest text not null,
    sched_dep_time time not null,
    dep_time time,
    dep_delay integer,
    sched_arr_time time not null,
    arr_time time,
    arr_delay integer,
    air_time integer,
    distance integer not null,
    time_hour timestamptz not null
);
