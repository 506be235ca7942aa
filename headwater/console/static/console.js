// What htmx does not do: to say plainly that the server does not answer, and to show a live feed.
"use strict";

const QUIET_MS = 10000;
const live = document.getElementById("live");
const lost = document.getElementById("lost");
let answeredAt = Date.now();

function clock(at) {
  return new Date(at).toISOString().slice(11, 19) + " UTC";
}

function lsn(number) {
  const half = (value) => value.toString(16).toUpperCase();
  return `${half(Math.floor(number / 2 ** 32))}/${half(number % 2 ** 32)}`;
}

function judge() {
  const gone = Boolean(live) && Date.now() - answeredAt > QUIET_MS;
  if (!lost || gone === !lost.hidden) return;
  lost.hidden = !gone;
  document.body.toggleAttribute("data-lost", gone);
  lost.firstElementChild.textContent = gone
    ? `No answer from the server since ${clock(answeredAt)}: what stands below is as of then.` : "";
}

document.addEventListener("htmx:after:request", ({ detail }) => {
  if (detail.ctx.response.status < 500) answeredAt = Date.now();
  judge();
});
document.addEventListener("htmx:before:swap", (event) => {
  if (event.detail.ctx.response.status >= 400) event.preventDefault();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible" || !live) return;
  judge();
  htmx.trigger(live, "refresh");
});
setInterval(judge, 1000);

// The feed of a table: events of GET /changes, the newest first.
const feed = document.getElementById("feed");
if (feed) follow(feed.tBodies[0], document.getElementById("feed-state"));

function follow(rows, said) {
  const stream = new EventSource(feed.dataset.stream);
  const say = (text) => { said.textContent = text; };
  const cells = (name, { source = {}, op, before, after, key }) => [
    source.commit_lsn ? lsn(source.commit_lsn) : "",
    source.ts_ms ? clock(source.ts_ms) : "",
    { c: "insert", u: "update", d: "delete", t: "truncate" }[op] || name,
    JSON.stringify(after ?? before ?? key ?? null),
  ];
  const add = (name) => ({ data }) => {
    const line = document.createElement("tr");
    for (const text of cells(name, JSON.parse(data))) {
      line.insertCell().textContent = String(text);
    }
    rows.prepend(line);
    while (rows.rows.length > Number(feed.dataset.most)) rows.lastElementChild.remove();
    say(`Connected. The last event came at ${clock(Date.now())}.`);
  };
  stream.onopen = () => say("Connected. Waiting for changes.");
  stream.onerror = () => say(`Not connected since ${clock(Date.now())}; trying again.`);
  for (const name of ["change", "left"]) stream.addEventListener(name, add(name));
  stream.addEventListener("cut", ({ data }) => say(`The server ended the feed: ${JSON.parse(data).detail}`));
  stream.addEventListener("gone", ({ data }) => say(`Changes are missing: ${JSON.parse(data).detail}`));
}
