#!/bin/sh
# Run once by the postgres image, when it has created the database: the role of Headwater, which owns
# what it captures, and two tables to try. The password is taken from its file by psql, so that it
# is no argument.
set -eu
psql -v ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname shop <<'SQL'
\set password `cat /run/secrets/source_password`
CREATE ROLE headwater LOGIN REPLICATION PASSWORD :'password';
GRANT CREATE ON DATABASE shop TO headwater;
GRANT CREATE ON SCHEMA public TO headwater;
SET ROLE headwater;
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, city text);
CREATE TABLE orders (
    id int PRIMARY KEY,
    customer_id int NOT NULL REFERENCES customers,
    total numeric(10, 2) NOT NULL,
    shipped boolean NOT NULL DEFAULT false
);
INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Grace', 'New York');
INSERT INTO orders VALUES (1, 1, 22.20, false), (2, 2, 17.00, true);
SQL
