// What htmx does not do: to say plainly that the server does not answer, and to show a live feed.
"use strict";

const QUIET_MS = 10000;
const live = document.querySelector("#live[data-hx-get]"); // none on a page that stays as it is
const lost = document.getElementById("lost");
let shownAt = Date.now();
let refused = 0; // the status of an answer that could not be shown

function clock(at) {
  return new Date(at).toISOString().slice(11, 19) + " UTC";
}

function lsn(number) {
  const half = (value) => value.toString(16).toUpperCase();
  return `${half(Math.floor(number / 2 ** 32))}/${half(number % 2 ** 32)}`;
}

function judge() {
  const gone = Boolean(live) && Date.now() - shownAt > QUIET_MS;
  const why = refused ? `The server answers with status ${refused}` : "No answer from the server";
  const said = gone ? `${why} since ${clock(shownAt)}: what stands below is as of then.` : "";
  if (!lost || said === lost.firstElementChild.textContent) return;
  lost.hidden = !gone;
  document.body.toggleAttribute("data-lost", gone);
  lost.firstElementChild.textContent = said;
}

// An error is shown where it is a page of the console, and where nothing would be lost: a form or a
// feed stays.
function isShown({ sourceElement, response, text }) {
  if (response.status < 400) return true;
  return sourceElement === live && /<main id="main"/.test(text)
    && !live.querySelector("[data-own]:not([data-hx-get])");
}

document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  if (ctx.sourceElement !== live) return;
  const { status } = ctx.response;
  refused = isShown(ctx) ? 0 : status;
  if (!refused) shownAt = Date.now();
  judge();
});
document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
  if (ctx?.sourceElement === live) refused = 0;
});
document.addEventListener("htmx:before:swap", (event) => {
  if (!isShown(event.detail.ctx)) event.preventDefault();
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

// Numbers with the digits that were sent: those above 2 ** 53 have no number here.
function exact(_, value, context) {
  return typeof value === "number" && context?.source ? JSON.rawJSON(context.source) : value;
}

function row(data) {
  if (!JSON.rawJSON) return data;
  const { before, after, key } = JSON.parse(data, exact);
  return JSON.stringify(after ?? before ?? key ?? null);
}

function follow(rows, said) {
  const stream = new EventSource(feed.dataset.stream);
  const say = (text) => { said.textContent = text; };
  const cells = (name, data, { source = {}, op } = JSON.parse(data)) => [
    source.commit_lsn ? lsn(source.commit_lsn) : "",
    source.ts_ms ? clock(source.ts_ms) : "",
    { c: "insert", u: "update", d: "delete", t: "truncate" }[op] || name,
    row(data),
  ];
  const add = (name) => ({ data }) => {
    const line = document.createElement("tr");
    for (const text of cells(name, data)) {
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
