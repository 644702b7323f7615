// An agent on the server of @a2a-js/sdk 1.x that behaves as README.md says, over v1.0 on every binding.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import * as a2a from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultExecutionEventBusManager,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import * as sdkGrpc from '@a2a-js/sdk/server/grpc';
import * as grpc from '@grpc/grpc-js';
import express from 'express';

import { executed, offered, ready } from '../harness.mjs';

/** Publishes what one turn does to its task. */
class Turn {
  constructor(context, bus) {
    Object.assign(this, { context, bus, ids: { taskId: context.taskId, contextId: context.contextId } });
  }

  said(text) {
    const message = { ...this.ids, messageId: randomUUID(), role: 'ROLE_AGENT', parts: [{ text }] };
    return message;
  }

  message(text) {
    this.bus.publish(AgentEvent.message(a2a.Message.fromJSON({ ...this.said(text), taskId: undefined })));
  }

  task() {
    const { taskId: id, contextId } = this.ids;
    const task = a2a.Task.fromJSON({ id, contextId, status: status('TASK_STATE_SUBMITTED') });
    task.history = [this.context.userMessage];
    this.bus.publish(AgentEvent.task(task));
  }

  state(state, text) {
    const message = text === undefined ? undefined : this.said(text);
    const event = { ...this.ids, status: { ...status(state), message } };
    this.bus.publish(AgentEvent.statusUpdate(a2a.TaskStatusUpdateEvent.fromJSON(event)));
  }

  artifact(artifactId, parts, { append = false, lastChunk = false } = {}) {
    const event = a2a.TaskArtifactUpdateEvent.fromJSON({ ...this.ids, artifact: { artifactId }, append, lastChunk });
    event.artifact.parts = parts;
    this.bus.publish(AgentEvent.artifactUpdate(event));
  }
}

function status(state) {
  return { state, timestamp: new Date().toISOString() };
}

function textOf(message) {
  const [first] = message?.parts ?? [];
  return first?.content?.$case === 'text' ? first.content.value : '';
}

class Agent {
  #running = new Map();

  async execute(context, bus) {
    const turn = new Turn(context, bus);
    const text = textOf(context.userMessage);
    executed(text);
    if (text.startsWith('tck-message-response')) {
      turn.message('Direct message response');
    } else {
      const abort = new AbortController();
      this.#running.set(context.taskId, { abort, turn });
      await this.#work(turn, context, text, abort.signal);
      this.#running.delete(context.taskId);
    }
    bus.finished();
  }

  async #work(turn, context, text, signal) {
    if (!context.task) turn.task();
    const begun = context.task ? textOf(context.task.history[0]) : text;
    const begins = (...prefixes) => prefixes.some((prefix) => begun.startsWith(prefix));
    if (begins('tck-multi-turn') && text !== 'done') {
      turn.state('TASK_STATE_INPUT_REQUIRED', 'Say `done` when you are');
      return;
    }
    if (begins('tck-stream-chunked', 'tck-cancel', 'tck-long-running')) turn.state('TASK_STATE_WORKING');
    if (begins('tck-cancel')) {
      await new Promise((canceled) => {
        signal.addEventListener('abort', canceled);
      });
      turn.state('TASK_STATE_CANCELED');
      return;
    }
    if (begins('tck-long-running')) await sleep(1000);
    if (begins('tck-stream-chunked')) {
      const [one, two] = ['chunk-1 ', 'chunk-2'].map((chunk) => a2a.Part.fromJSON({ text: chunk }));
      turn.artifact('chunks', [one]);
      turn.artifact('chunks', [two], { append: true, lastChunk: true });
    }
    if (begins('tck-error')) throw new Error('the work is done');
    if (begins('tck-echo')) turn.artifact('echo', context.userMessage.parts);
    turn.state('TASK_STATE_COMPLETED');
  }

  async cancelTask(taskId) {
    this.#running.get(taskId)?.abort.abort();
  }
}

function cardAt(url, grpcAddress) {
  const modes = ['text/plain', 'application/json', 'application/octet-stream'];
  const at = (protocolBinding, place) => ({ url: place, protocolBinding, protocolVersion: '1.0' });
  return a2a.AgentCard.fromJSON({
    name: 'interop-javascript-1.0',
    description: 'Behaves as the interop scenarios ask',
    version: '1.0.0',
    provider: { organization: 'Interop', url: 'https://interop.example' },
    supportedInterfaces: offered([
      at('JSONRPC', `${url}/jsonrpc`),
      at('HTTP+JSON', `${url}/rest`),
      at('GRPC', grpcAddress),
    ]),
    capabilities: { streaming: true, pushNotifications: true },
    defaultInputModes: modes,
    defaultOutputModes: modes,
    skills: [{ id: 'interop', name: 'Interop', description: 'Behaves as asked', tags: ['test'] }],
  });
}

const app = express();
const http = app.listen(0, '127.0.0.1');
await new Promise((listening) => {
  http.once('listening', listening);
});
const url = `http://127.0.0.1:${http.address().port}`;

const grpcServer = new grpc.Server();
const grpcPort = await new Promise((bound, failed) => {
  grpcServer.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) failed(error);
    else bound(port);
  });
});

const card = cardAt(url, `127.0.0.1:${grpcPort}`);
const pushConfigs = new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(
  card,
  new InMemoryTaskStore(),
  new Agent(),
  new DefaultExecutionEventBusManager(),
  pushConfigs,
  new DefaultPushNotificationSender(pushConfigs),
);
const userBuilder = UserBuilder.noAuthentication;
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/jsonrpc', jsonRpcHandler({ requestHandler, userBuilder }));
app.use('/rest', restHandler({ requestHandler, userBuilder }));
const service = sdkGrpc.grpcService({ requestHandler, userBuilder: sdkGrpc.UserBuilder.noAuthentication });
grpcServer.addService(sdkGrpc.A2AService, service);
ready(url, `127.0.0.1:${grpcPort}`);
