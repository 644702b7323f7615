// The client of @a2a-js/sdk 1.x against every agent of examples/fleet, on every binding.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';

import * as a2a from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

import { commandLine, expect, expectEqual, run } from '../harness.mjs';

const play = JSON.parse(readFileSync(new URL('../../fleet.json', import.meta.url)));
const { url } = commandLine();
const transports = {
  JSONRPC: () => new JsonRpcTransportFactory(),
  'HTTP+JSON': () => new RestTransportFactory(),
  GRPC: () => new GrpcTransportFactory(),
};

const connect = (name, binding) =>
  new ClientFactory({ transports: [transports[binding]()] }).createFromUrl(`${url}/agents/${name}/`);

const request = () =>
  a2a.SendMessageRequest.fromJSON({
    message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text: play.asked }] },
  });

const textOf = (artifacts) =>
  artifacts.flatMap((artifact) => artifact.parts.map((part) => part.content.value)).join('');

async function send(name, binding) {
  const task = await (await connect(name, binding)).sendMessage(request());
  expectEqual(a2a.taskStateToJSON(task.status.state), 'TASK_STATE_COMPLETED', 'state');
  expectEqual(textOf(task.artifacts), play.answers[name], 'answer');
}

async function stream(name, binding) {
  const events = [];
  for await (const event of (await connect(name, binding)).sendMessageStream(request())) events.push(event);
  expectEqual(events[0]?.payload?.$case, 'task', 'first event');
  const chunks = events.filter((event) => event.payload.$case === 'artifactUpdate');
  expectEqual(textOf(chunks.map((event) => event.payload.value.artifact)), play.answers[name], 'answer');
  const last = events.at(-1).payload.value.status;
  expect(last, `the last event is ${JSON.stringify(events.at(-1))}`);
  expectEqual(a2a.taskStateToJSON(last.state), 'TASK_STATE_COMPLETED', 'last state');
  return `${events.length} events`;
}

const scenarios = Object.keys(play.answers).flatMap((name) =>
  Object.keys(transports).flatMap((binding) => [
    [`${name} ${binding} send`, () => send(name, binding)],
    [`${name} ${binding} stream`, () => stream(name, binding)],
  ]),
);
await run(scenarios);
