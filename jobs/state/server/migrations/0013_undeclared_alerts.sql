-- When an alert was last declared where apply runs, or read by a server: what was not for long is
-- deleted (`jobs.state.feeds.alert_upkeep`).
alter table headwater.view_alerts add seen_at timestamptz not null default clock_timestamp();
