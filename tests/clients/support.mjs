/* What the tests of client libraries share: cases and their count, servers, and a fetch that looks at
 * every answer.
 *
 * Nothing leaves this machine: a name that would have to be looked up and an address that is not
 * 127.0.0.1 are errors.
 */
import { spawn } from 'node:child_process';
import dns from 'node:dns';
import { closeSync, openSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';

/* ---- only this machine ---- */

const noName = (name) => {
  throw new Error(`a look-up of ${name}: the tests talk to 127.0.0.1 alone`);
};
/* To listen there is a look-up of it too. */
const lookUp = dns.lookup;
dns.lookup = (name, ...rest) => name === '127.0.0.1' ? lookUp(name, ...rest) : noName(name);
dns.promises.lookup = noName;

export const sockets = { opened: 0 };
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const options = Array.isArray(args[0]) ? args[0][0] : args[0];
  if (options.host !== '127.0.0.1') noName(options.host ?? options.path);
  sockets.opened++;
  return connect.apply(this, args);
};

/* ---- cases ---- */

let passed = 0, failed = 0, skipped = 0;

export async function test(name, body, seconds = 300) {
  let timer;
  const late = new Promise((_, no) => {
    timer = setTimeout(() => no(new Error(`no end after ${seconds} s`)), seconds * 1e3);
  });
  try {
    await Promise.race([body(), late]);
    passed++;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}\n${error?.stack ?? error}`);
  } finally {
    clearTimeout(timer);
  }
}

export function skip(name, reason) {
  skipped++;
  console.log(`skip: ${name}: ${reason}`);
}

/* The runner's line, and the exit code that goes with it. */
export function finish() {
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

/* Asks until `wanted` says yes. */
export async function until(wanted, what) {
  for (let i = 0; i < 6000; i++) {
    const value = await wanted();
    if (value) return value;
    await new Promise((go) => setTimeout(go, 20));
  }
  throw new Error(`it never came to this: ${what}`);
}

/* Settled, or 10 s later: whichever is first. */
function bounded(attempt) {
  let timer;
  const late = new Promise((go) => {
    timer = setTimeout(go, 10e3);
  });
  return Promise.race([attempt, late]).finally(() => clearTimeout(timer));
}

/* An answer that a client leaves is counted as given up. One may be over before the server hears of it, as
 * no answer of the shipped model is endless by itself: again then.
 *
 * An attempt may never settle. When a signal is raised just as the end of an answer has come, the fetch of
 * node 20 neither ends the body nor throws, whoever sent it: a server of node:http that sends six events and
 * ends gives the same, three times in a hundred, with fetch alone and through the libraries. Such an answer
 * was over too. */
export async function givenUp(server, start) {
  for (let k = 0; k < 8; k++) {
    const before = await server.metric('cancelled_total');
    await bounded(start());
    await until(async () => (await server.metric('queue_running')) === 0, 'nothing runs');
    if ((await server.metric('cancelled_total')) === before + 1) return;
  }
  throw new Error('eight answers ended by themselves, and one should be given up');
}

/* ---- servers ---- */

const [program, install, work] = process.argv.slice(2);
const running = new Set();
let servers = 0;

/* A server on a free port; it is there once its log says so. */
export async function serve(...args) {
  const log = join(work, `server-${++servers}.log`), fd = openSync(log, 'w');
  const child = spawn(program, ['--model', install, '--port', '0', ...args], { stdio: ['ignore', 'ignore', fd] });
  closeSync(fd);
  running.add(child);
  const text = () => readFileSync(log, 'utf8');
  const ended = new Promise((go) => child.on('exit', (code, signal) => go(code ?? signal)));
  const port = await until(() => {
    if (child.exitCode !== null) throw new Error(`the server ended: ${text()}`);
    return text().match(/listens on 127\.0\.0\.1:(\d+)/)?.[1];
  }, 'the server listens');
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    log: text,
    get: async (path) => (await fetch(url + path)).text(),
    /* One number of /metrics, labels included in its name. */
    metric: async (name) => {
      const page = await (await fetch(url + '/metrics', { headers: { 'x-api-key': 'sesame' } })).text();
      const line = page.split('\n').find((l) => l.startsWith(`tinytitan_${name} `));
      return line === undefined ? undefined : Number(line.split(' ')[1]);
    },
    stop: async () => {
      child.kill('SIGTERM');
      const code = await ended;
      running.delete(child);
      return code;
    },
  };
}
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/* ---- a fetch that looks at what comes ---- */

export const seen = new Map();
export const faults = [];

/* Stands in for fetch in the SDKs: what was read to its end goes through `validate` as well, which
 * gives [name of the schema, fault or null] for all that is in an answer. */
export function lookWith(validate) {
  function look(path, response, text, method) {
    for (const [schema, fault] of validate(path, response.status, response.headers.get('content-type'), text, method)) {
      seen.set(schema, (seen.get(schema) ?? 0) + 1);
      if (fault !== null) faults.push(`${path}, ${response.status}: not a ${schema}: ${fault}`);
    }
  }
  return async (input, init) => {
    const response = await fetch(input, init), path = new URL(input.url ?? input).pathname;
    const parts = [];
    const watched = new TransformStream({
      transform: (part, controller) => {
        parts.push(part);
        controller.enqueue(part);
      },
      flush: () => look(path, response, Buffer.concat(parts).toString(), init?.method),
    });
    return new Response(response.body.pipeThrough(watched), response);
  };
}
