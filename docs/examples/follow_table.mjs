// A copy of a table in memory that follows the source. Node 20 or later, or any browser; the types
// are for TypeScript (tsc --checkJs).
//
//     node follow_table.mjs http://127.0.0.1:8484 public.orders [TOKEN]
// @ts-check

/**
 * @typedef {{id?: string, name: string, data: string, retryMs?: number}} StreamEvent
 * @typedef {Record<string, unknown>} Row
 * @typedef {{op: string, before: Row | null, after: Row | null,
 *            source: {commit_lsn: number, ordinal: number, unchanged?: string[]}}} Change
 */

/**
 * Parse a stream: blocks of lines, each ended by an empty line.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<StreamEvent>}
 */
async function* events(body) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of /** @type {any} */ (body)) {
    const blocks = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      /** @type {StreamEvent} */
      const event = { name: "", data: "" };
      for (const line of block.split("\n")) {
        const colon = line.indexOf(":");
        const field = line.slice(0, colon);
        const value = line.slice(colon + 1).replace(/^ /, "");
        if (field === "id") event.id = value;
        else if (field === "event") event.name = value;
        else if (field === "data") event.data += value;
        else if (field === "retry") event.retryMs = Number(value);
      }
      yield event;
    }
  }
}

export class Follower {
  /** @param {string} base @param {string} table @param {string} [token] @param {string} [query] */
  constructor(base, table, token = "", query = "") {
    this.url = `${base}/changes/${encodeURIComponent(table)}${query}`;
    this.token = token;
    this.position = "";
    /** @type {string[]} */
    this.key = [];
    /** @type {Map<string, {row: Row, lsn: number, ordinal: number}>} */
    this.rows = new Map();
    this.complete = false;
    this.retryMs = 2000;
  }

  /** For ever, over broken connections and restarts. */
  async run() {
    for (;;) {
      try {
        await this.followOnce();
      } catch (error) {
        console.error(`disconnected: ${error}`);
      }
      await new Promise((resolve) => setTimeout(resolve, this.retryMs));
    }
  }

  /** One connection, to its end. */
  async followOnce() {
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (this.position) headers["Last-Event-ID"] = this.position;
    const response = await fetch(this.url, { headers });
    if (!response.ok || !response.body) throw new Error(await response.text());
    for await (const event of events(response.body)) this.take(event);
  }

  /** @param {StreamEvent} event */
  take(event) {
    if (event.retryMs !== undefined) this.retryMs = event.retryMs;
    if (event.name) {
      const data = JSON.parse(event.data);
      if (event.name === "snapshot-begin") {
        // forget what was known
        this.key = data.key;
        this.rows.clear();
        this.complete = false;
      } else if (event.name === "snapshot-end") this.complete = true;
      else if (event.name === "left") this.rows.delete(this.keyOf(data.key));
      else if (event.name === "row" || event.name === "change") this.apply(data);
    }
    if (event.id !== undefined) this.position = event.id;
  }

  /** @param {Row} row */
  keyOf(row) {
    return JSON.stringify(this.key.map((name) => row[name]));
  }

  /** @param {Change} change */
  apply(change) {
    const { commit_lsn: lsn, ordinal, unchanged = [] } = change.source;
    if (change.op === "t") {
      // once for each partition of the topic
      for (const [key, at] of this.rows)
        if (at.lsn < lsn || (at.lsn === lsn && at.ordinal < ordinal)) this.rows.delete(key);
      return;
    }
    const row = /** @type {Row} */ (change.after ?? change.before);
    const key = this.keyOf(row);
    if (change.op === "d") {
      this.rows.delete(key);
      return;
    }
    // large values that the update left alone
    for (const name of unchanged) row[name] = this.rows.get(key)?.row[name];
    this.rows.set(key, { row, lsn, ordinal });
  }
}

const [, script, base, table, token] = process.argv;
if (script?.endsWith("follow_table.mjs") && base && table) {
  const follower = new Follower(base, table, token);
  const report = () => console.log(JSON.stringify({ complete: follower.complete, rows: follower.rows.size }));
  setInterval(report, 1000);
  await follower.run();
}
