-- The place of an alert in a log is made when readers are shown that generation: when the alert
-- comes there, it sees whether changes are gone meanwhile. Those of generations shown before:
insert into headwater.view_alert_places (alert, epoch, number)
select a.alert, f.epoch, f.trimmed + 1
from headwater.view_alerts a join headwater.feeds f on f.name = a.view
where f.epoch in (select epoch from headwater.feed_shows)
on conflict do nothing;

-- `filling` says that all rows of a generation are written in turns by its build: the log has none
-- of them.
alter table headwater.feeds add filling boolean not null default false;
