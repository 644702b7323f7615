// What every JavaScript client here shares: one JSON line a scenario, a receiver of notifications, and `expect`.

import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { isDeepStrictEqual, parseArgs } from 'node:util';

// For how long a scenario may take.
const PATIENCE_MS = 20_000;

// What `send` sends, and must get back part by part.
export const GREETING = 'tck-echo Grüße, 世界 🦀';
export const FILE_BYTES = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
export const DATA = { key: 'välue', count: 42, nested: { list: [1, 2.5, true, 'x'] } };

// No server has a task of this id.
export const UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000';

export function expect(condition, complaint) {
  if (!condition) throw new Error(complaint);
}

export function expectEqual(actual, wanted, what) {
  expect(isDeepStrictEqual(actual, wanted), `${what}: ${JSON.stringify(actual)}, not ${JSON.stringify(wanted)}`);
}

/** Expects an error that `isRight` likes. */
export async function refused(call, isRight) {
  let answer;
  try {
    answer = await call;
  } catch (error) {
    expect(isRight(error), `the wrong error: ${describe(error)}`);
    return;
  }
  throw new Error(`not refused but ${JSON.stringify(answer)}`);
}

/** `--url URL --binding JSONRPC|HTTP+JSON|GRPC` */
export function commandLine() {
  return parseArgs({ options: { url: { type: 'string' }, binding: { type: 'string' } } }).values;
}

/** Runs pairs of a name and a function one after the other, whatever becomes of each; then ends the process. */
export async function run(scenarios) {
  for (const [scenario, act] of scenarios) {
    try {
      report(scenario, 'ok', (await inTime(act())) ?? '');
    } catch (error) {
      report(scenario, 'failed', describe(error));
    }
  }
  process.exit(0);
}

function inTime(promise) {
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`nothing more came for ${PATIENCE_MS} ms`)), PATIENCE_MS).unref();
  });
  return Promise.race([promise, late]);
}

function describe(error) {
  const cause = error?.cause ? ` (${error.cause})` : '';
  return `${error?.name ?? typeof error}: ${error?.message ?? error}${cause}`;
}

function report(scenario, outcome, detail) {
  process.stdout.write(`${JSON.stringify({ scenario, outcome, detail })}\n`);
}

/**
 * `--log FILE`, which gets a line for each message that is worked on; `--binding B`, the only one that is offered; `--grpc-at
 * HOST:PORT`, where gRPC is found, if it is led there from elsewhere.
 */
function server() {
  const text = { type: 'string' };
  return parseArgs({ options: { log: text, binding: text, 'grpc-at': text }, strict: false }).values;
}

/** Writes down that a message is worked on, before anything is done about it. */
export function executed(text) {
  const { log } = server();
  if (log) appendFileSync(log, `${JSON.stringify({ event: 'execute', word: text.split(' ')[0], text })}\n`);
}

/** Those of the interfaces that are to stand on the card. */
export function offered(interfaces) {
  const { binding, 'grpc-at': grpcAt } = server();
  const isOf = (one, name) => [one.protocolBinding, one.transport].includes(name);
  const seen = interfaces.map((one) => (grpcAt && isOf(one, 'GRPC') ? { ...one, url: grpcAt } : one));
  return seen.filter((one) => !binding || isOf(one, binding));
}

/** Says that a server is there. It goes when whoever started it closes its standard input. */
export function ready(url, grpc) {
  process.stdout.write(`${JSON.stringify({ url, grpc })}\n`);
  process.stdin.on('end', () => process.exit(0));
  process.stdin.resume();
}

/** Takes every notification, and remembers it. */
export class Webhook {
  #notices = [];
  #wake = () => {};

  static async start() {
    const webhook = new Webhook();
    webhook.server = createServer(async (request, response) => {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      webhook.#notices.push({ headers: request.headers, body: JSON.parse(Buffer.concat(chunks)) });
      response.writeHead(204).end();
      webhook.#wake();
    });
    await new Promise((listening) => webhook.server.listen(0, '127.0.0.1', listening));
    webhook.url = `http://127.0.0.1:${webhook.server.address().port}/hook`;
    return webhook;
  }

  /** All notifications up to the one whose body `isEnd` likes. */
  async until(isEnd) {
    const seen = [];
    for (;;) {
      while (this.#notices.length > 0) {
        const notice = this.#notices.shift();
        seen.push(notice);
        if (isEnd(notice.body)) return seen;
      }
      await new Promise((wake) => {
        this.#wake = wake;
      });
    }
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }
}
