"""The client of a2a-sdk 1.x against an agent that behaves as README.md says, over v1.0."""

import asyncio
import uuid

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import (
    get_artifact_text,
    get_data_parts,
    get_raw_parts,
    get_text_parts,
    new_data_part,
    new_raw_part,
    new_text_part,
)
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import ParseDict

import grpc.aio
import harness
import httpx

from harness import expect


ENDED = {
    a2a.TASK_STATE_COMPLETED,
    a2a.TASK_STATE_FAILED,
    a2a.TASK_STATE_CANCELED,
    a2a.TASK_STATE_REJECTED,
}


def message(*parts, task=None, context_id=None):
    parts = [new_text_part(part) if isinstance(part, str) else part for part in parts]
    said = a2a.Message(role=a2a.ROLE_USER, message_id=str(uuid.uuid4()), parts=parts)
    if task:
        said.task_id, said.context_id = task.id, task.context_id
    if context_id:
        said.context_id = context_id
    return said


def state_of(event):
    kind = event.WhichOneof('payload')
    return getattr(event, kind).status.state if kind in ('task', 'status_update') else None


def expect_state(task, state):
    expect(
        task.status.state == state,
        f'{a2a.TaskState.Name(task.status.state)}, not {a2a.TaskState.Name(state)}',
    )


class Scenarios:
    def __init__(self, card, binding, http):
        def client(streaming):
            return ClientFactory(
                ClientConfig(
                    streaming=streaming,
                    httpx_client=http,
                    grpc_channel_factory=grpc.aio.insecure_channel,
                    supported_protocol_bindings=[binding],
                )
            ).create(card)

        self._card, self._binding = card, binding
        self._client, self._streaming = client(False), client(True)

    def all(self):
        return [
            self.card,
            self.send,
            self.message,
            self.stream,
            self.input_required,
            self.cancel,
            self.get,
            self.list,
            self.subscribe,
            self.push,
            self.errors,
        ]

    async def _send(self, said, **configuration):
        request = a2a.SendMessageRequest(
            message=said, configuration=a2a.SendMessageConfiguration(**configuration)
        )
        async for answer in self._client.send_message(request):
            return answer
        raise AssertionError('no answer')

    async def _task(self, said, **configuration):
        answer = await self._send(said, **configuration)
        expect(answer.HasField('task'), f'no task but {answer}')
        return answer.task

    async def card(self):
        named = [(one.protocol_binding, one.protocol_version) for one in self._card.supported_interfaces]
        expect((self._binding, '1.0') in named, f'the card names {named}')
        expect(self._card.name and self._card.skills, 'the card has no name or no skill')
        expect(self._card.capabilities.streaming, 'the card promises no streams')
        expect(self._card.capabilities.push_notifications, 'the card promises no notifications')

    async def send(self):
        parts = [
            new_text_part(harness.GREETING),
            new_raw_part(harness.FILE_BYTES, media_type='application/octet-stream', filename='bytes.bin'),
            new_data_part(harness.DATA),
        ]
        task = await self._task(message(*parts))
        expect_state(task, a2a.TASK_STATE_COMPLETED)
        expect(len(task.artifacts) == 1, f'{len(task.artifacts)} artifacts')
        echoed = task.artifacts[0].parts
        expect(get_text_parts(echoed) == [harness.GREETING], f'text {get_text_parts(echoed)}')
        expect(get_raw_parts(echoed) == [harness.FILE_BYTES], 'the bytes came back changed')
        expect(get_data_parts(echoed) == [harness.DATA], f'data {get_data_parts(echoed)}')
        expect(echoed[1].filename == 'bytes.bin', f'file name {echoed[1].filename!r}')

    async def message(self):
        answer = await self._send(message('tck-message-response'))
        expect(answer.HasField('message'), f'no message but {answer}')
        expect(get_text_parts(answer.message.parts) == ['Direct message response'], str(answer.message))
        expect(answer.message.role == a2a.ROLE_AGENT, 'not said by the agent')

    async def stream(self):
        request = a2a.SendMessageRequest(message=message('tck-stream-chunked'))
        events = [event async for event in self._streaming.send_message(request)]
        expect(events and events[0].HasField('task'), f'the first event is {events[:1]}')
        chunks = [event.artifact_update for event in events if event.HasField('artifact_update')]
        texts = [get_artifact_text(chunk.artifact) for chunk in chunks]
        expect(texts == ['chunk-1 ', 'chunk-2'], f'chunks {texts}')
        expect([chunk.append for chunk in chunks] == [False, True], 'the second chunk does not append')
        states = [state_of(event) for event in events if state_of(event)]
        expect(a2a.TASK_STATE_WORKING in states, 'never working')
        expect(states[-1] == a2a.TASK_STATE_COMPLETED, f'ends {a2a.TaskState.Name(states[-1])}')
        return f'{len(events)} events'

    async def input_required(self):
        asked = await self._task(message('tck-multi-turn'))
        expect_state(asked, a2a.TASK_STATE_INPUT_REQUIRED)
        again = await self._task(message('more', task=asked))
        expect_state(again, a2a.TASK_STATE_INPUT_REQUIRED)
        done = await self._task(message('done', task=asked))
        expect_state(done, a2a.TASK_STATE_COMPLETED)
        expect(done.id == asked.id and done.context_id == asked.context_id, 'another task')

    async def cancel(self):
        task = await self._task(message('tck-cancel'), return_immediately=True)
        expect(task.status.state not in ENDED, f'already {a2a.TaskState.Name(task.status.state)}')
        canceled = await self._client.cancel_task(a2a.CancelTaskRequest(id=task.id))
        expect_state(canceled, a2a.TASK_STATE_CANCELED)
        expect_state(await self._client.get_task(a2a.GetTaskRequest(id=task.id)), a2a.TASK_STATE_CANCELED)

    async def get(self):
        sent = await self._task(message('tck-echo to be got'))
        got = await self._client.get_task(a2a.GetTaskRequest(id=sent.id, history_length=1))
        expect_state(got, a2a.TASK_STATE_COMPLETED)
        expect(get_artifact_text(got.artifacts[0]) == 'tck-echo to be got', str(got.artifacts))
        expect(len(got.history) <= 1, f'{len(got.history)} messages of history')

    async def list(self):
        first = await self._task(message('tck-echo one'))
        second = await self._task(message('tck-echo two', context_id=first.context_id))
        expect(second.context_id == first.context_id, 'the context was not kept')
        ids, token = [], ''
        for _ in range(2):
            page = await self._client.list_tasks(
                a2a.ListTasksRequest(context_id=first.context_id, page_size=1, page_token=token)
            )
            ids += [task.id for task in page.tasks]
            token = page.next_page_token
            expect(page.total_size == 2, f'{page.total_size} in all')
        expect(ids == [second.id, first.id], f'listed {ids}')
        expect(not token, 'a third page')

    async def subscribe(self):
        request = a2a.SendMessageRequest(message=message('tck-long-running'))
        stream = self._streaming.send_message(request)
        task = (await anext(stream)).task
        await stream.aclose()
        expect(task.id, 'the first event is no task')
        again = self._streaming.subscribe(a2a.SubscribeToTaskRequest(id=task.id))
        events = [event async for event in again]
        expect(events[0].HasField('task') and events[0].task.id == task.id, f'the first event is {events[0]}')
        expect(state_of(events[-1]) == a2a.TASK_STATE_COMPLETED, f'the last event is {events[-1]}')

    async def push(self):
        webhook = harness.Webhook()
        try:
            await self._push_by_configuration(webhook)
            await self._push_inline(webhook)
        finally:
            webhook.close()

    async def _push_by_configuration(self, webhook):
        task = await self._task(message('tck-multi-turn'))

        def config(name):
            auth = a2a.AuthenticationInfo(scheme='Bearer', credentials='interop-secret')
            return a2a.TaskPushNotificationConfig(
                task_id=task.id, id=name, url=webhook.url, authentication=auth
            )

        kept = await self._client.create_task_push_notification_config(config('kept'))
        await self._client.create_task_push_notification_config(config('dropped'))
        got = await self._client.get_task_push_notification_config(
            a2a.GetTaskPushNotificationConfigRequest(task_id=task.id, id=kept.id)
        )
        expect(got.url == webhook.url, f'url {got.url}')
        await self._client.delete_task_push_notification_config(
            a2a.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id='dropped')
        )
        left = await self._client.list_task_push_notification_configs(
            a2a.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        expect([one.id for one in left.configs] == [kept.id], f'configurations {left.configs}')
        expect_state(await self._task(message('done', task=task)), a2a.TASK_STATE_COMPLETED)
        notices = await webhook.until(completes(task))
        for headers, _ in notices:
            expect(headers.get('authorization') == 'Bearer interop-secret', 'not authenticated')

    async def _push_inline(self, webhook):
        config = a2a.TaskPushNotificationConfig(url=webhook.url, token='interop-token')
        task = await self._task(message('tck-echo push'), task_push_notification_config=config)
        await webhook.until(completes(task))

    async def errors(self):
        unknown = harness.UNKNOWN_TASK
        await refused(TaskNotFoundError, self._client.get_task(a2a.GetTaskRequest(id=unknown)))
        await refused(TaskNotFoundError, self._client.cancel_task(a2a.CancelTaskRequest(id=unknown)))
        ended = await self._task(message('tck-echo to be ended'))
        await refused(TaskNotCancelableError, self._client.cancel_task(a2a.CancelTaskRequest(id=ended.id)))
        await refused(UnsupportedOperationError, self._send(message('more', task=ended)))


def completes(task):
    """Whether a notification, read by the SDK's own type, says that the task has completed."""

    def is_end(body):
        event = ParseDict(body, a2a.StreamResponse())
        about = getattr(event, event.WhichOneof('payload'))
        theirs = about.id if event.HasField('task') else about.task_id
        return theirs == task.id and state_of(event) == a2a.TASK_STATE_COMPLETED

    return is_end


async def refused(kind, call):
    try:
        answer = await call
    except kind:
        return
    raise AssertionError(f'no {kind.__name__} but {answer}')


async def main():
    given = harness.arguments()
    async with httpx.AsyncClient(timeout=harness.PATIENCE_SECONDS) as http:
        card = await A2ACardResolver(http, given.url).get_agent_card()
        await harness.run(Scenarios(card, given.binding, http).all())


asyncio.run(main())
