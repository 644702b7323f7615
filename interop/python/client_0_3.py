"""The client of a2a-sdk 0.3 against an agent that behaves as README.md says, over v0.3."""

import asyncio
import base64
import uuid

from a2a import types as a2a
from a2a.client import A2ACardResolver, A2AClientHTTPError, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.utils import get_artifact_text, get_message_text

import grpc.aio
import harness
import httpx

from harness import expect


def message(*parts, task=None):
    parts = [a2a.TextPart(text=part) if isinstance(part, str) else part for part in parts]
    return a2a.Message(
        role=a2a.Role.user,
        message_id=str(uuid.uuid4()),
        parts=[a2a.Part(root=part) for part in parts],
        task_id=task.id if task else None,
        context_id=task.context_id if task else None,
    )


def expect_state(task, state):
    expect(task.status.state == state, f'{task.status.state}, not {state}')


class Scenarios:
    def __init__(self, card, binding, http):
        def client(**configuration):
            return ClientFactory(
                ClientConfig(
                    httpx_client=http,
                    grpc_channel_factory=grpc.aio.insecure_channel,
                    supported_transports=[binding],
                    **configuration,
                )
            ).create(card)

        self._card, self._binding, self._client_of = card, binding, client
        self._client, self._streaming = client(streaming=False), client(streaming=True)

    def all(self):
        return [
            self.card,
            self.send,
            self.message,
            self.stream,
            self.input_required,
            self.cancel,
            self.get,
            self.subscribe,
            self.push,
            self.errors,
        ]

    async def _send(self, said, client=None):
        async for answer in (client or self._client).send_message(said):
            return answer
        raise AssertionError('no answer')

    async def _task(self, said, client=None):
        answer = await self._send(said, client)
        expect(isinstance(answer, tuple), f'no task but {answer}')
        return answer[0]

    async def card(self):
        card = self._card
        named = {card.preferred_transport or 'JSONRPC'}
        named |= {one.transport for one in card.additional_interfaces or []}
        expect(self._binding in named, f'the card names {named}')
        expect(card.protocol_version.startswith('0.3'), f'the card says {card.protocol_version}')
        expect(card.name and card.skills, 'the card has no name or no skill')
        expect(card.capabilities.streaming, 'the card promises no streams')
        expect(card.capabilities.push_notifications, 'the card promises no notifications')

    async def send(self):
        coded = base64.b64encode(harness.FILE_BYTES).decode()
        file = a2a.FileWithBytes(bytes=coded, mime_type='application/octet-stream', name='bytes.bin')
        task = await self._task(
            message(harness.GREETING, a2a.FilePart(file=file), a2a.DataPart(data=harness.DATA))
        )
        expect_state(task, a2a.TaskState.completed)
        expect(len(task.artifacts) == 1, f'{len(task.artifacts)} artifacts')
        text, echoed, data = (part.root for part in task.artifacts[0].parts)
        expect(text.text == harness.GREETING, f'text {text.text}')
        expect(echoed.file.bytes == coded, f'the bytes came back changed: {echoed.file.bytes[:40]}')
        expect(data.data == harness.DATA, f'data {data.data}')
        expect(echoed.file.name == 'bytes.bin', f'file name {echoed.file.name!r}')

    async def message(self):
        answer = await self._send(message('tck-message-response'))
        expect(isinstance(answer, a2a.Message), f'no message but {answer}')
        expect(get_message_text(answer) == 'Direct message response', str(answer))
        expect(answer.role == a2a.Role.agent, 'not said by the agent')

    async def stream(self):
        updates, chunks = [], []
        async for _, update in self._streaming.send_message(message('tck-stream-chunked')):
            updates.append(update)
            # Read at once: the SDK appends later chunks to the first one's own list of parts.
            if isinstance(update, a2a.TaskArtifactUpdateEvent):
                chunks.append((get_artifact_text(update.artifact), bool(update.append)))
        expect(updates and updates[0] is None, f'the first event is no task but {updates[:1]}')
        expect(chunks == [('chunk-1 ', False), ('chunk-2', True)], f'chunks {chunks}')
        statuses = [update for update in updates if isinstance(update, a2a.TaskStatusUpdateEvent)]
        expect(any(one.status.state == a2a.TaskState.working for one in statuses), 'never working')
        expect_state(statuses[-1], a2a.TaskState.completed)
        expect(statuses[-1].final, 'the last status is not final')
        expect(not any(one.final for one in statuses[:-1]), 'final before the end')
        return f'{len(updates)} events'

    async def input_required(self):
        asked = await self._task(message('tck-multi-turn'))
        expect_state(asked, a2a.TaskState.input_required)
        again = await self._task(message('more', task=asked))
        expect_state(again, a2a.TaskState.input_required)
        done = await self._task(message('done', task=asked))
        expect_state(done, a2a.TaskState.completed)
        expect(done.id == asked.id and done.context_id == asked.context_id, 'another task')

    async def cancel(self):
        polling = self._client_of(streaming=False, polling=True)
        task = await self._task(message('tck-cancel'), polling)
        canceled = await self._client.cancel_task(a2a.TaskIdParams(id=task.id))
        expect_state(canceled, a2a.TaskState.canceled)
        got = await self._client.get_task(a2a.TaskQueryParams(id=task.id))
        expect_state(got, a2a.TaskState.canceled)

    async def get(self):
        sent = await self._task(message('tck-echo to be got'))
        got = await self._client.get_task(a2a.TaskQueryParams(id=sent.id, history_length=1))
        expect_state(got, a2a.TaskState.completed)
        expect(get_artifact_text(got.artifacts[0]) == 'tck-echo to be got', str(got.artifacts))
        expect(len(got.history or []) <= 1, f'{len(got.history or [])} messages of history')

    async def subscribe(self):
        stream = self._streaming.send_message(message('tck-long-running'))
        task, _ = await anext(stream)
        await stream.aclose()
        again = self._streaming.resubscribe(a2a.TaskIdParams(id=task.id))
        events = [event async for event in again]
        expect(events and all(one.id == task.id for one, _ in events), f'events {events}')
        expect_state(events[-1][0], a2a.TaskState.completed)

    async def push(self):
        webhook = harness.Webhook()
        try:
            await self._push_by_configuration(webhook)
            config = a2a.PushNotificationConfig(url=webhook.url, token='interop-token')
            pushing = self._client_of(streaming=False, push_notification_configs=[config])
            task = await self._task(message('tck-echo push'), pushing)
            await webhook.until(completes(task))
        finally:
            webhook.close()

    async def _push_by_configuration(self, webhook):
        task = await self._task(message('tck-multi-turn'))
        config = a2a.PushNotificationConfig(id='kept', url=webhook.url, token='interop-token')
        wanted = a2a.TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
        await self._client.set_task_callback(wanted)
        got = await self._client.get_task_callback(
            a2a.GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id='kept')
        )
        expect(got.task_id == task.id, f'task {got.task_id}')
        expect(got.push_notification_config.url == webhook.url, f'url {got.push_notification_config.url}')
        expect_state(await self._task(message('done', task=task)), a2a.TaskState.completed)
        for headers, _ in await webhook.until(completes(task)):
            expect(headers.get('x-a2a-notification-token') == 'interop-token', 'without its token')

    async def errors(self):
        unknown = a2a.TaskIdParams(id=harness.UNKNOWN_TASK)
        not_found = (-32001, (404,), (grpc.StatusCode.NOT_FOUND,))
        await refused(self._client.get_task(a2a.TaskQueryParams(id=harness.UNKNOWN_TASK)), *not_found)
        await refused(self._client.cancel_task(unknown), *not_found)
        ended = await self._task(message('tck-echo to be ended'))
        # What v0.3 answers here over HTTP+JSON and gRPC is not written down; it must be the caller's mistake.
        grpc_codes = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED)
        cancel = self._client.cancel_task(a2a.TaskIdParams(id=ended.id))
        await refused(cancel, -32002, (400, 409), grpc_codes)


def completes(task):
    """Whether a notification, read by the SDK's own type, says that the task has completed."""

    def is_end(body):
        told = a2a.Task.model_validate(body)
        return told.id == task.id and told.status.state == a2a.TaskState.completed

    return is_end


async def refused(call, code, http_statuses, grpc_codes):
    """Expects an error: each transport of this SDK has a way of its own to tell it."""
    try:
        answer = await call
    except A2AClientJSONRPCError as error:
        expect(error.error.code == code, f'JSON-RPC error {error.error}')
    except A2AClientHTTPError as error:
        expect(error.status_code in http_statuses, str(error))
    except grpc.aio.AioRpcError as error:
        expect(error.code() in grpc_codes, f'{error.code()}: {error.details()}')
    else:
        raise AssertionError(f'not refused but {answer}')


async def main():
    given = harness.arguments()
    async with httpx.AsyncClient(timeout=harness.PATIENCE_SECONDS) as http:
        card = await A2ACardResolver(http, given.url).get_agent_card()
        await harness.run(Scenarios(card, given.binding, http).all())


asyncio.run(main())
