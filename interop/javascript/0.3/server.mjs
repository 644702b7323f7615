// An agent on the server of @a2a-js/sdk 0.3 that behaves as README.md says, over v0.3 on every binding.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import {
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

const ENDS = ['completed', 'canceled', 'input-required'];

/** Publishes what one turn does to its task. */
class Turn {
  constructor(context, bus) {
    Object.assign(this, { context, bus, ids: { taskId: context.taskId, contextId: context.contextId } });
  }

  said(text) {
    return { kind: 'message', messageId: randomUUID(), role: 'agent', parts: [textPart(text)], ...this.ids };
  }

  message(text) {
    const { taskId: _, ...message } = this.said(text);
    this.bus.publish(message);
  }

  task() {
    const { taskId: id, contextId } = this.ids;
    this.bus.publish({ kind: 'task', id, contextId, status: status('submitted'), history: [this.context.userMessage] });
  }

  state(state, text) {
    const message = text === undefined ? undefined : this.said(text);
    const final = ENDS.includes(state);
    this.bus.publish({ kind: 'status-update', ...this.ids, status: { ...status(state), message }, final });
  }

  artifact(artifactId, parts, { append = false, lastChunk = false } = {}) {
    this.bus.publish({ kind: 'artifact-update', ...this.ids, artifact: { artifactId, parts }, append, lastChunk });
  }
}

function textPart(text) {
  return { kind: 'text', text };
}

function status(state) {
  return { state, timestamp: new Date().toISOString() };
}

function textOf(message) {
  return message?.parts?.[0]?.text ?? '';
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
      this.#running.set(context.taskId, abort);
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
      turn.state('input-required', 'Say `done` when you are');
      return;
    }
    if (begins('tck-stream-chunked', 'tck-cancel', 'tck-long-running')) turn.state('working');
    if (begins('tck-cancel')) {
      await new Promise((canceled) => {
        signal.addEventListener('abort', canceled);
      });
      turn.state('canceled');
      return;
    }
    if (begins('tck-long-running')) await sleep(1000);
    if (begins('tck-stream-chunked')) {
      turn.artifact('chunks', [textPart('chunk-1 ')]);
      turn.artifact('chunks', [textPart('chunk-2')], { append: true, lastChunk: true });
    }
    if (begins('tck-error')) throw new Error('the work is done');
    if (begins('tck-echo')) turn.artifact('echo', context.userMessage.parts);
    turn.state('completed');
  }

  async cancelTask(taskId) {
    this.#running.get(taskId)?.abort();
  }
}

function cardAt(url, grpcAddress) {
  const modes = ['text/plain', 'application/json', 'application/octet-stream'];
  const additionalInterfaces = offered([
    { url: `${url}/jsonrpc`, transport: 'JSONRPC' },
    { url: `${url}/rest`, transport: 'HTTP+JSON' },
    { url: grpcAddress, transport: 'GRPC' },
  ]);
  return {
    name: 'interop-javascript-0.3',
    description: 'Behaves as the interop scenarios ask',
    version: '1.0.0',
    provider: { organization: 'Interop', url: 'https://interop.example' },
    protocolVersion: '0.3.0',
    url: additionalInterfaces[0].url,
    preferredTransport: additionalInterfaces[0].transport,
    additionalInterfaces,
    capabilities: { streaming: true, pushNotifications: true },
    defaultInputModes: modes,
    defaultOutputModes: modes,
    skills: [{ id: 'interop', name: 'Interop', description: 'Behaves as asked', tags: ['test'] }],
  };
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

const pushConfigs = new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(
  cardAt(url, `127.0.0.1:${grpcPort}`),
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
