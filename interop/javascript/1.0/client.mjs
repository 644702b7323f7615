// The client of @a2a-js/sdk 1.x against an agent that behaves as README.md says, over v1.0.

import { randomUUID } from 'node:crypto';

import * as a2a from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError } from '@a2a-js/sdk/errors';

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

const { TaskState } = a2a;
const { url, binding } = commandLine();
const transports = {
  JSONRPC: () => new JsonRpcTransportFactory(),
  'HTTP+JSON': () => new RestTransportFactory(),
  GRPC: () => new GrpcTransportFactory(),
};
const client = await new ClientFactory({ transports: [transports[binding]()] }).createFromUrl(url);

const textPart = (text) => ({ text });
const texts = (parts) => parts.filter((part) => part.content?.$case === 'text').map((part) => part.content.value);

function request(parts, { task, contextId, ...configuration } = {}) {
  return a2a.SendMessageRequest.fromJSON({
    message: {
      messageId: randomUUID(),
      role: 'ROLE_USER',
      parts,
      taskId: task?.id,
      contextId: task?.contextId ?? contextId,
    },
    configuration,
  });
}

async function sendForTask(text, options) {
  const answer = await client.sendMessage(request([textPart(text)], options));
  expect(!('messageId' in answer), `no task but ${JSON.stringify(answer)}`);
  return answer;
}

function expectState(task, wanted) {
  expectEqual(a2a.taskStateToJSON(task.status.state), a2a.taskStateToJSON(wanted), 'state');
}

function stateOf(event) {
  return event.payload?.value?.status?.state;
}

async function collect(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Whether a notification, read by the SDK's own type, says that the task has completed. */
function completes(task) {
  return (body) => {
    const event = a2a.StreamResponse.fromJSON(body);
    const about = event.payload.$case === 'task' ? event.payload.value.id : event.payload.value.taskId;
    return about === task.id && stateOf(event) === TaskState.TASK_STATE_COMPLETED;
  };
}

async function card() {
  const known = await client.getAgentCard();
  const named = known.supportedInterfaces.map((one) => `${one.protocolBinding} ${one.protocolVersion}`);
  expect(named.includes(`${binding} 1.0`), `the card names ${named}`);
  expectEqual(client.transport.protocolName, binding, 'transport');
  expect(known.name && known.skills.length > 0, 'the card has no name or no skill');
  expect(known.capabilities.streaming, 'the card promises no streams');
  expect(known.capabilities.pushNotifications, 'the card promises no notifications');
}

async function send() {
  const parts = [
    textPart(GREETING),
    { raw: FILE_BYTES.toString('base64'), mediaType: 'application/octet-stream', filename: 'bytes.bin' },
    { data: DATA },
  ];
  const task = await client.sendMessage(request(parts));
  expectState(task, TaskState.TASK_STATE_COMPLETED);
  expectEqual(task.artifacts.length, 1, 'artifacts');
  const [text, file, data] = task.artifacts[0].parts;
  expectEqual(text.content.value, GREETING, 'text');
  expect(FILE_BYTES.equals(file.content.value), 'the bytes came back changed');
  expectEqual(file.filename, 'bytes.bin', 'file name');
  expectEqual(data.content.value, DATA, 'data');
}

async function message() {
  const answer = await client.sendMessage(request([textPart('tck-message-response')]));
  expect('messageId' in answer, `no message but ${JSON.stringify(answer)}`);
  expectEqual(texts(answer.parts), ['Direct message response'], 'message');
  expectEqual(answer.role, a2a.Role.ROLE_AGENT, 'role');
}

async function stream() {
  const events = await collect(client.sendMessageStream(request([textPart('tck-stream-chunked')])));
  expectEqual(events[0]?.payload?.$case, 'task', 'first event');
  const chunks = events.filter((event) => event.payload.$case === 'artifactUpdate').map((event) => event.payload.value);
  expectEqual(chunks.map((chunk) => texts(chunk.artifact.parts)), [['chunk-1 '], ['chunk-2']], 'chunks');
  expectEqual(chunks.map((chunk) => chunk.append), [false, true], 'append');
  const states = events.map(stateOf).filter((state) => state !== undefined);
  expect(states.includes(TaskState.TASK_STATE_WORKING), 'never working');
  expectEqual(states.at(-1), TaskState.TASK_STATE_COMPLETED, 'last state');
  return `${events.length} events`;
}

async function inputRequired() {
  const asked = await sendForTask('tck-multi-turn');
  expectState(asked, TaskState.TASK_STATE_INPUT_REQUIRED);
  const again = await sendForTask('more', { task: asked });
  expectState(again, TaskState.TASK_STATE_INPUT_REQUIRED);
  const done = await sendForTask('done', { task: asked });
  expectState(done, TaskState.TASK_STATE_COMPLETED);
  expectEqual([done.id, done.contextId], [asked.id, asked.contextId], 'ids');
}

async function cancel() {
  const task = await sendForTask('tck-cancel', { returnImmediately: true });
  const canceled = await client.cancelTask(a2a.CancelTaskRequest.fromJSON({ id: task.id }));
  expectState(canceled, TaskState.TASK_STATE_CANCELED);
  const got = await client.getTask(a2a.GetTaskRequest.fromJSON({ id: task.id }));
  expectState(got, TaskState.TASK_STATE_CANCELED);
}

async function get() {
  const sent = await sendForTask('tck-echo to be got');
  const got = await client.getTask(a2a.GetTaskRequest.fromJSON({ id: sent.id, historyLength: 1 }));
  expectState(got, TaskState.TASK_STATE_COMPLETED);
  expectEqual(texts(got.artifacts[0].parts), ['tck-echo to be got'], 'artifact');
  expect(got.history.length <= 1, `${got.history.length} messages of history`);
}

async function list() {
  const first = await sendForTask('tck-echo one');
  const { contextId } = first;
  const second = await sendForTask('tck-echo two', { contextId });
  expectEqual(second.contextId, contextId, 'context');
  const ids = [];
  let pageToken = '';
  for (let page = 0; page < 2; page += 1) {
    const answer = await client.listTasks(a2a.ListTasksRequest.fromJSON({ contextId, pageSize: 1, pageToken }));
    ids.push(...answer.tasks.map((task) => task.id));
    pageToken = answer.nextPageToken;
    expectEqual(answer.totalSize, 2, 'total');
  }
  expectEqual(ids, [second.id, first.id], 'listed');
  expectEqual(pageToken, '', 'token of a third page');
}

async function subscribe() {
  let id;
  for await (const event of client.sendMessageStream(request([textPart('tck-long-running')]))) {
    expectEqual(event.payload.$case, 'task', 'first event');
    id = event.payload.value.id;
    break;
  }
  const events = await collect(client.resubscribeTask(a2a.SubscribeToTaskRequest.fromJSON({ id })));
  expectEqual([events[0]?.payload.$case, events[0]?.payload.value.id], ['task', id], 'first event');
  expectEqual(stateOf(events.at(-1)), TaskState.TASK_STATE_COMPLETED, 'last state');
}

async function push() {
  const webhook = await Webhook.start();
  try {
    await pushByConfiguration(webhook);
    const task = await sendForTask('tck-echo push', {
      taskPushNotificationConfig: { url: webhook.url, token: 'interop-token' },
    });
    await webhook.until(completes(task));
  } finally {
    webhook.close();
  }
}

async function pushByConfiguration(webhook) {
  const task = await sendForTask('tck-multi-turn');
  const config = (id) =>
    a2a.TaskPushNotificationConfig.fromJSON({
      taskId: task.id,
      id,
      url: webhook.url,
      authentication: { scheme: 'Bearer', credentials: 'interop-secret' },
    });
  const kept = await client.createTaskPushNotificationConfig(config('kept'));
  await client.createTaskPushNotificationConfig(config('dropped'));
  const ids = (id) => ({ tenant: '', taskId: task.id, id });
  expectEqual((await client.getTaskPushNotificationConfig(ids(kept.id))).url, webhook.url, 'url');
  await client.deleteTaskPushNotificationConfig(ids('dropped'));
  const left = await client.listTaskPushNotificationConfig(
    a2a.ListTaskPushNotificationConfigsRequest.fromJSON({ taskId: task.id }),
  );
  expectEqual(left.configs.map((one) => one.id), [kept.id], 'configurations');
  expectState(await sendForTask('done', { task }), TaskState.TASK_STATE_COMPLETED);
  for (const { headers } of await webhook.until(completes(task))) {
    expectEqual(headers.authorization, 'Bearer interop-secret', 'authorization');
  }
}

async function errors() {
  const ids = (id) => ({ tenant: '', id, metadata: undefined });
  await refused(client.getTask(ids(UNKNOWN_TASK)), (error) => error instanceof TaskNotFoundError);
  await refused(client.cancelTask(ids(UNKNOWN_TASK)), (error) => error instanceof TaskNotFoundError);
  const ended = await sendForTask('tck-echo to be ended');
  await refused(client.cancelTask(ids(ended.id)), (error) => error instanceof TaskNotCancelableError);
  await refused(sendForTask('more', { task: ended }), (error) => error instanceof UnsupportedOperationError);
}

await run(
  Object.entries({
    card,
    send,
    message,
    stream,
    'input-required': inputRequired,
    cancel,
    get,
    list,
    subscribe,
    push,
    errors,
  }),
);
