// The client of @a2a-js/sdk 0.3 against an agent that behaves as README.md says, over v0.3.

import { randomUUID } from 'node:crypto';

import {
  ClientFactory,
  JsonRpcTransportFactory,
  RestTransportFactory,
  TaskNotCancelableError,
  TaskNotFoundError,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

import {
  DATA,
  FILE_BYTES,
  GREETING,
  UNKNOWN_TASK,
  Webhook,
  commandLine,
  expect,
  expectEqual,
  refused,
  run,
} from '../harness.mjs';

const { url, binding } = commandLine();
const transports = {
  JSONRPC: () => new JsonRpcTransportFactory(),
  'HTTP+JSON': () => new RestTransportFactory(),
  GRPC: () => new GrpcTransportFactory(),
};
const client = await new ClientFactory({ transports: [transports[binding]()] }).createFromUrl(url);

const textPart = (text) => ({ kind: 'text', text });
const texts = (parts) => parts.filter((part) => part.kind === 'text').map((part) => part.text);

function params(parts, { task, ...configuration } = {}) {
  const message = { kind: 'message', messageId: randomUUID(), role: 'user', parts };
  if (task) Object.assign(message, { taskId: task.id, contextId: task.contextId });
  return { message, configuration: { blocking: true, ...configuration } };
}

async function sendForTask(text, options) {
  const answer = await client.sendMessage(params([textPart(text)], options));
  expectEqual(answer.kind, 'task', 'answer');
  return answer;
}

function expectState(task, wanted) {
  expectEqual(task.status.state, wanted, 'state');
}

async function collect(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Whether a notification says that the task has completed. */
function completes(task) {
  return (body) => {
    expectEqual(body.kind, 'task', 'notification');
    return body.id === task.id && body.status.state === 'completed';
  };
}

async function card() {
  const known = await client.getAgentCard();
  const named = [known.preferredTransport ?? 'JSONRPC', ...(known.additionalInterfaces ?? []).map((one) => one.transport)];
  expect(named.includes(binding), `the card names ${named}`);
  expect(known.protocolVersion?.startsWith('0.3'), `the card says ${known.protocolVersion}`);
  expect(known.name && known.skills.length > 0, 'the card has no name or no skill');
  expect(known.capabilities.streaming, 'the card promises no streams');
  expect(known.capabilities.pushNotifications, 'the card promises no notifications');
}

async function send() {
  const bytes = FILE_BYTES.toString('base64');
  const parts = [
    textPart(GREETING),
    { kind: 'file', file: { bytes, mimeType: 'application/octet-stream', name: 'bytes.bin' } },
    { kind: 'data', data: DATA },
  ];
  const task = await client.sendMessage(params(parts));
  expectEqual(task.kind, 'task', 'answer');
  expectState(task, 'completed');
  expectEqual(task.artifacts.length, 1, 'artifacts');
  const [text, file, data] = task.artifacts[0].parts;
  expectEqual(text.text, GREETING, 'text');
  expectEqual(file.file.bytes, bytes, 'bytes');
  expectEqual(data.data, DATA, 'data');
  // The messages that this SDK has for HTTP+JSON and gRPC have no place for it.
  if (binding === 'JSONRPC') expectEqual(file.file.name, 'bytes.bin', 'file name');
}

async function message() {
  const answer = await client.sendMessage(params([textPart('tck-message-response')]));
  expectEqual(answer.kind, 'message', 'answer');
  expectEqual(texts(answer.parts), ['Direct message response'], 'message');
  expectEqual(answer.role, 'agent', 'role');
}

async function stream() {
  const events = await collect(client.sendMessageStream(params([textPart('tck-stream-chunked')])));
  expectEqual(events[0]?.kind, 'task', 'first event');
  const chunks = events.filter((event) => event.kind === 'artifact-update');
  expectEqual(chunks.map((chunk) => texts(chunk.artifact.parts)), [['chunk-1 '], ['chunk-2']], 'chunks');
  expectEqual(chunks.map((chunk) => chunk.append ?? false), [false, true], 'append');
  const statuses = events.filter((event) => event.kind === 'status-update');
  expect(statuses.some((event) => event.status.state === 'working'), 'never working');
  expectState(statuses.at(-1), 'completed');
  expectEqual(statuses.map((event) => event.final ?? false).indexOf(true), statuses.length - 1, 'first final status');
  return `${events.length} events`;
}

async function inputRequired() {
  const asked = await sendForTask('tck-multi-turn');
  expectState(asked, 'input-required');
  expectState(await sendForTask('more', { task: asked }), 'input-required');
  const done = await sendForTask('done', { task: asked });
  expectState(done, 'completed');
  expectEqual([done.id, done.contextId], [asked.id, asked.contextId], 'ids');
}

async function cancel() {
  const task = await sendForTask('tck-cancel', { blocking: false });
  expectState(await client.cancelTask({ id: task.id }), 'canceled');
  expectState(await client.getTask({ id: task.id }), 'canceled');
}

async function get() {
  const sent = await sendForTask('tck-echo to be got');
  const got = await client.getTask({ id: sent.id, historyLength: 1 });
  expectState(got, 'completed');
  expectEqual(texts(got.artifacts[0].parts), ['tck-echo to be got'], 'artifact');
  expect((got.history ?? []).length <= 1, `${got.history?.length} messages of history`);
}

async function subscribe() {
  let id;
  for await (const event of client.sendMessageStream(params([textPart('tck-long-running')]))) {
    expectEqual(event.kind, 'task', 'first event');
    id = event.id;
    break;
  }
  const events = await collect(client.resubscribeTask({ id }));
  expect(events.every((event) => (event.taskId ?? event.id) === id), 'events of another task');
  expectEqual(events.at(-1)?.status?.state, 'completed', 'last state');
}

async function push() {
  const webhook = await Webhook.start();
  try {
    await pushByConfiguration(webhook);
    const task = await sendForTask('tck-echo push', {
      pushNotificationConfig: { url: webhook.url, token: 'interop-token' },
    });
    await webhook.until(completes(task));
  } finally {
    webhook.close();
  }
}

async function pushByConfiguration(webhook) {
  const task = await sendForTask('tck-multi-turn');
  const config = (id) => ({
    taskId: task.id,
    pushNotificationConfig: { id, url: webhook.url, token: 'interop-token' },
  });
  await client.setTaskPushNotificationConfig(config('kept'));
  await client.setTaskPushNotificationConfig(config('dropped'));
  const ids = (name) => ({ id: task.id, pushNotificationConfigId: name });
  const got = await client.getTaskPushNotificationConfig(ids('kept'));
  expectEqual([got.taskId, got.pushNotificationConfig.url], [task.id, webhook.url], 'configuration');
  await client.deleteTaskPushNotificationConfig(ids('dropped'));
  const left = await client.listTaskPushNotificationConfig({ id: task.id });
  expectEqual(left.map((one) => one.pushNotificationConfig.id), ['kept'], 'configurations');
  expectState(await sendForTask('done', { task }), 'completed');
  for (const { headers } of await webhook.until(completes(task))) {
    expectEqual(headers['x-a2a-notification-token'], 'interop-token', 'token');
  }
}

async function errors() {
  await refused(client.getTask({ id: UNKNOWN_TASK }), (error) => error instanceof TaskNotFoundError);
  await refused(client.cancelTask({ id: UNKNOWN_TASK }), (error) => error instanceof TaskNotFoundError);
  const ended = await sendForTask('tck-echo to be ended');
  await refused(client.cancelTask({ id: ended.id }), (error) => error instanceof TaskNotCancelableError);
}

await run(
  Object.entries({ card, send, message, stream, 'input-required': inputRequired, cancel, get, subscribe, push, errors }),
);
