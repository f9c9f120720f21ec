// A client of the scorer in JavaScript: Node.js 18 or newer and no package. Redis is the wire, so in any language it is
// no more than this: push a query, wait on the list of its id.
//
//   export WINDWARD_REDIS_URL=redis://127.0.0.1:6379/0
//   node client.mjs place '{"id": "orders-7", "cpu": 2, "memory": "10G"}'
//   node client.mjs confirm '{"id": "orders-7", "generation": 4711}'
//   node client.mjs release '{"id": "orders-7"}'
//
// `generation` is in the answer of `place`: with it a step is taken on that reservation only, and refused
// (FAILED_PRECONDITION) when it has ended and the name was placed anew. Without it the step is on whichever is live.
//
// Exit codes are those of `windward`: 0 done, 1 failed, 2 wrong usage, 3 no machine fits, 4 no answer in time.

import { randomUUID } from "node:crypto";
import { realpathSync } from "node:fs";
import net from "node:net";
import tls from "node:tls";
import { pathToFileURL } from "node:url";

/** What a server answers that will take writes again. */
const NOT_NOW = /^(LOADING|MISCONF|READONLY|NOREPLICAS|MASTERDOWN|OOM) /;

/** A call that failed: `code` is gRPC's name, `retryable` says whether the same call may succeed later. */
export class WindwardError extends Error {
  constructor(code, message, retryable = false) {
    super(`${code}: ${message}`);
    Object.assign(this, { code, retryable });
  }
}

/**
 * Return the result of one query within `timeoutS` seconds. "No machine fits" is an answer: `machine` is null.
 *
 * A broken connection is opened again and the query sent again under the same id: whatever it asks is done once. When
 * what it reserved has ended meanwhile the error is ABORTED. Give `place` an id of your own: while that is live, a
 * call repeated by you gives the same answer; once it has ended, the call places it anew.
 */
export async function call(method, params, { url = "redis://127.0.0.1:6379/0", prefix = "windward", timeoutS = 5 } = {}) {
  const id = randomUUID();
  const deadline = Date.now() / 1000 + timeoutS;
  const query = JSON.stringify({ v: 1, id, method, deadline, params });
  const ofOperators = ["cordon", "uncordon", "drain", "plan", "rebalance"].includes(method); // who may push on their list is one
  const queries = `${prefix}:v1:queries${ofOperators ? ":operators" : ""}`;
  let away = null;
  for (let left = timeoutS; left > 0; left = deadline - Date.now() / 1000) {
    const wait = ["BLPOP", `${prefix}:v1:reply:${id}`, Math.max(left, 0.001).toFixed(3)];
    let found;
    try {
      found = (await send(url, [["LPUSH", queries, query], wait], left)).pop();
    } catch (error) {
      if (error instanceof WindwardError && !error.retryable) throw error;
      away = error;
      await new Promise((resume) => setTimeout(resume, 50));
      continue;
    }
    if (found === null) {
      await send(url, [["LREM", queries, "1", query]], 1).catch(() => {}); // nobody took it: leave no litter
      throw new WindwardError("DEADLINE_EXCEEDED", `no answer within ${timeoutS} s: is a scorer running?`, true);
    }
    const reply = JSON.parse(found[1]);
    if (reply.ok) return reply.result;
    throw new WindwardError(reply.error.code, reply.error.message, reply.error.retryable);
  }
  throw new WindwardError("UNAVAILABLE", `no connection to ${new URL(url).host}: ${away?.message}`, true);
}

/** Send commands on a connection of their own, in one write; return their answers. Callers by the hundred want a pool. */
function send(url, commands, timeoutS) {
  const { protocol, hostname, port, username, password, pathname } = new URL(url);
  const before = [];
  if (password) before.push(["AUTH", decodeURIComponent(username) || "default", decodeURIComponent(password)]);
  if (pathname.length > 1) before.push(["SELECT", pathname.slice(1)]);
  const wanted = before.length + commands.length;
  return new Promise((resolve, reject) => {
    const open = protocol === "rediss:" ? tls.connect : net.connect;
    const socket = open({ host: hostname.replace(/[[\]]/g, ""), port: Number(port || 6379) });
    const timer = setTimeout(() => socket.destroy(new Error("the server is silent")), timeoutS * 1000 + 500);
    const answers = [];
    let unread = Buffer.alloc(0);
    socket.on("data", (more) => {
      unread = Buffer.concat([unread, more]);
      for (let read; answers.length < wanted && (read = parse(unread, 0)); unread = unread.subarray(read.end)) {
        answers.push(read.value);
        if (read.value instanceof WindwardError) return socket.destroy(read.value);
      }
      if (answers.length === wanted) socket.end(resolve(answers.slice(before.length)));
    });
    socket.on("error", reject);
    socket.on("close", () => (clearTimeout(timer), reject(new Error("the connection was closed"))));
    socket.write([...before, ...commands].map(pack).join(""));
  });
}

/** Return a command in Redis' own form: an array of strings with their lengths in bytes. */
function pack(words) {
  return `*${words.length}\r\n` + words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("");
}

/** Return the value that begins at `at` and where it ends; null while part of it has not arrived. */
function parse(bytes, at) {
  const line = bytes.indexOf("\r\n", at);
  if (line < 0) return null;
  const text = bytes.toString("utf8", at + 1, line);
  let end = line + 2;
  switch (String.fromCharCode(bytes[at])) {
    case "$": {
      const length = Number(text);
      if (length < 0) return { value: null, end };
      return bytes.length < end + length + 2
        ? null
        : { value: bytes.toString("utf8", end, end + length), end: end + length + 2 };
    }
    case "*": {
      if (Number(text) < 0) return { value: null, end };
      const value = [];
      for (let left = Number(text); left > 0; left--) {
        const element = parse(bytes, end);
        if (!element) return null;
        value.push(element.value);
        end = element.end;
      }
      return { value, end };
    }
    case "-":
      return { value: new WindwardError("UNAVAILABLE", text, NOT_NOW.test(text)), end };
    default:
      return { value: text, end };
  }
}

async function main([method, params = "{}"]) {
  if (!method) {
    console.error("usage: node client.mjs METHOD [PARAMS]");
    return 2;
  }
  const { WINDWARD_REDIS_URL: url, WINDWARD_PREFIX: prefix, WINDWARD_TIMEOUT: timeout = 5 } = process.env;
  try {
    const result = await call(method, JSON.parse(params), { url, prefix, timeoutS: Number(timeout) });
    console.log(JSON.stringify(result));
    return method === "place" && result.missing ? 3 : 0;
  } catch (error) {
    console.error(error instanceof SyntaxError ? `params: ${error.message}` : error.message);
    if (error instanceof SyntaxError) return 2;
    return { INVALID_ARGUMENT: 2, DEADLINE_EXCEEDED: 4, UNAVAILABLE: 4 }[error.code] ?? 1;
  }
}

// Run as a program, also by way of a symbolic link; imported, this does nothing.
const program = process.argv[1] && pathToFileURL(realpathSync(process.argv[1])).href;
if (import.meta.url === program) process.exitCode = await main(process.argv.slice(2));
