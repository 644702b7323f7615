"""The agent of `chancery demo --agent conformance`, on the server of a2a-sdk 1.x: it is to look the same behind the gateway."""

import asyncio
import socket

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette

import harness
import uvicorn

FILE = {'raw': 'R2VuZXJhdGVkIGZpbGUgY29udGVudA==', 'filename': 'output.txt', 'mediaType': 'text/plain'}
URL = {'url': 'https://example.com/output.txt', 'filename': 'output.txt', 'mediaType': 'text/plain'}
DATA = {'data': {'key': 'value', 'count': 42}}

# By what the message that asks for it begins with: what is done, and with what.
BEHAVIOURS = {
    'tck-complete-task': ('say', 'Hello from TCK'),
    'tck-input-required': ('ask', 'Please say more'),
    'tck-auth-required': ('login', 'Please sign in'),
    'tck-artifact-text': ('artifact', {'text': 'Generated text content'}),
    'tck-artifact-file-url': ('artifact', URL),
    'tck-artifact-file': ('artifact', FILE),
    'tck-artifact-data': ('artifact', DATA),
    'tck-reject-task': ('reject', 'This task is rejected'),
    'tck-task-failure': ('fail', 'This task fails, as asked'),
    'tck-multi-turn': ('until-done', 'Say `done` when you are'),
    'tck-cancel': ('wait', None),
    'tck-long-running': ('wait', 1),
    'tck-stream-002': ('say', 'Done'),
    'tck-stream-artifact-file': ('work', FILE),
    'tck-stream-chunked': ('chunks', None),
    'tck-echo': ('echo', None),
}


def asked(message):
    text = message.parts[0].text if message.parts else ''
    return next((what for prefix, what in BEHAVIOURS.items() if text.startswith(prefix)), None)


def part(value):
    return new_text_part(value) if isinstance(value, str) else ParseDict(value, a2a.Part())


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        text = context.get_user_input()
        if text.startswith('tck-message-response'):
            await event_queue.enqueue_event(new_text_message('Direct message response', context_id=context.context_id))
            return
        task = context.current_task
        if not task:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        what = asked(context.message) or (task and task.history and asked(task.history[0])) or ('say', 'Done')
        await self._work(what, text, bool(task), context.message, updater)

    async def _work(self, what, text, is_follow_up, message, updater):
        kind, value = what
        said = updater.new_agent_message([part(value)]) if isinstance(value, str) else None
        if kind == 'say':
            await updater.complete(said)
        elif kind == 'ask':
            await updater.requires_input(said)
        elif kind == 'login' and not is_follow_up:
            await updater.requires_auth(said)
        elif kind == 'login':
            await updater.complete(updater.new_agent_message([part('Thank you')]))
        elif kind == 'reject':
            await updater.reject(said)
        elif kind == 'fail':
            await updater.failed(said)
        elif kind == 'until-done' and text != 'done':
            await updater.requires_input(said)
        elif kind == 'until-done':
            await updater.complete(updater.new_agent_message([part('Done')]))
        else:
            await self._produce(kind, value, message, updater)

    async def _produce(self, kind, value, message, updater):
        working = {'wait': 'Taking a while' if value else 'Until canceled', 'work': 'Working', 'chunks': 'Working'}
        if kind in working:
            await updater.start_work(updater.new_agent_message([part(working[kind])]))
        if kind == 'wait':
            await (asyncio.sleep(value) if value else asyncio.Event().wait())
        elif kind == 'chunks':
            first, last = [part('chunk-1 ')], [part('chunk-2')]
            await updater.add_artifact(first, artifact_id='artifact-1', name='chunks', append=False, last_chunk=False)
            await updater.add_artifact(last, artifact_id='artifact-1', append=True, last_chunk=True)
        elif kind == 'echo':
            await updater.add_artifact(list(message.parts), artifact_id='echo', last_chunk=True)
        elif kind == 'work':
            await updater.add_artifact([part(value)], artifact_id='result', last_chunk=True)
        else:
            await updater.add_artifact([part(value)], artifact_id='result', last_chunk=True)
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card(url):
    modes = ['text/plain', 'application/json', 'application/octet-stream']
    skill = a2a.AgentSkill(
        id='conformance', name='Conformance', description="Behaves as a kit's message asks", tags=['test']
    )
    return a2a.AgentCard(
        name='conformance',
        description='Does what the public conformance kits expect of an agent',
        version='0.1.0',
        provider=a2a.AgentProvider(organization='Chancery', url='https://chancery.example'),
        supported_interfaces=[a2a.AgentInterface(url=url, protocol_binding='JSONRPC', protocol_version='1.0')],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=modes,
        default_output_modes=modes,
        skills=[skill],
    )


async def main():
    listener = socket.create_server(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{listener.getsockname()[1]}'
    agent_card = card(f'{url}/')
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=agent_card)
    routes = [*create_agent_card_routes(agent_card), *create_jsonrpc_routes(handler, '/')]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level='warning'))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    harness.ready(url)
    await harness.until_abandoned()
    server.should_exit = server.force_exit = True
    await serving


asyncio.run(main())
