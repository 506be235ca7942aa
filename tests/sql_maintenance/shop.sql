-- The tables that the cases of cases.toml are views of.
create table customers (id int primary key, name text not null, city text, referred_by int, vip boolean not null default false);
create table products (sku text primary key, name text not null, price numeric(8,2) not null, category text);
create table orders (id int primary key, customer_id int, placed timestamptz not null, status text not null, total numeric(10,2), note text, tags text[], extra jsonb);
create table lines (order_id int, no int, sku text not null, quantity int not null, primary key (order_id, no));
create table payments (id int primary key, order_id int, amount numeric(10,2) not null, paid timestamptz not null, method text);
insert into customers values (1,'Ann','Ulm',null,true),(2,'Bob','Bonn',1,false),(3,'Cem',null,1,false),(4,'Dee','Ulm',3,false);
insert into products values ('A','Apple',1.50,'fruit'),('B','Bread',3.00,'bakery'),('C','Cake',12.00,'bakery'),('D','Drum',99.00,null);
insert into orders values (10,1,'2026-01-01 10:00Z','open',30.00,null,'{gift,fast}','{"w":1}'),(11,1,'2026-01-02 10:00Z','done',20.00,'x',null,null),(12,2,'2026-01-02 12:00Z','open',20.00,null,'{}','{"w":1.0}'),(13,null,'2026-01-03 09:00Z','open',null,null,null,null);
insert into lines values (10,1,'A',2),(10,2,'B',1),(11,1,'A',5),(12,1,'C',1);
insert into payments values (100,10,10.00,'2026-01-05 00:00Z','card'),(101,10,20.00,'2026-01-06 00:00Z','cash'),(102,11,20.00,'2026-01-07 00:00Z',null);
