"""An agent on the server of a2a-sdk 0.3 that behaves as README.md says, over v0.3 on every binding."""

import asyncio
import json
import socket

from a2a import types as a2a
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.utils import new_agent_text_message, new_task
from starlette.applications import Starlette
from starlette.routing import Mount

import grpc.aio
import harness
import httpx
import uvicorn


def text_part(text):
    return a2a.Part(root=a2a.TextPart(text=text))


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        text = context.get_user_input()
        harness.executed(text)
        if text.startswith('tck-error'):
            raise RuntimeError('the work is done')
        if text.startswith('tck-message-response'):
            await event_queue.enqueue_event(new_agent_text_message('Direct message response', context.context_id))
            return
        begun = context.current_task.history[0] if context.current_task else context.message
        if not context.current_task:
            await event_queue.enqueue_event(new_task(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await self._work(begun.parts[0].root.text, text, context.message, updater)

    async def _report(self, text, updater):
        usage = {harness.USAGE: json.loads(text.partition(' ')[2])}
        await updater.update_status(a2a.TaskState.completed, final=True, metadata=usage)

    async def _work(self, begun, text, message, updater):
        if begun.startswith('tck-multi-turn') and text != 'done':
            question = updater.new_agent_message([text_part('Say `done` when you are')])
            await updater.requires_input(question, final=True)
            return
        if begun.startswith(('tck-stream-chunked', 'tck-cancel', 'tck-long-running')):
            await updater.start_work()
        if begun.startswith('tck-cancel'):
            await asyncio.Event().wait()
        if begun.startswith('tck-long-running'):
            await asyncio.sleep(1)
        if begun.startswith('tck-stream-chunked'):
            await updater.add_artifact([text_part('chunk-1 ')], artifact_id='chunks')
            await updater.add_artifact(
                [text_part('chunk-2')], artifact_id='chunks', append=True, last_chunk=True
            )
        if begun.startswith('tck-usage'):
            await self._report(begun, updater)
            return
        if begun.startswith('tck-echo'):
            await updater.add_artifact(list(message.parts), artifact_id='echo')
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card(http, grpc_address):
    modes = ['text/plain', 'application/json', 'application/octet-stream']
    interfaces = harness.offered([('JSONRPC', f'{http}/'), ('HTTP+JSON', f'{http}/rest'), ('GRPC', grpc_address)])
    preferred, url = interfaces[0]
    return a2a.AgentCard(
        name='interop-python-0.3',
        description='Behaves as the interop scenarios ask',
        version='1.0.0',
        provider=a2a.AgentProvider(organization='Interop', url='https://interop.example'),
        protocol_version='0.3.0',
        url=url,
        preferred_transport=preferred,
        additional_interfaces=[a2a.AgentInterface(transport=name, url=place) for name, place in interfaces],
        capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=modes,
        default_output_modes=modes,
        skills=[a2a.AgentSkill(id='interop', name='Interop', description='Behaves as asked', tags=['test'])],
    )


async def main():
    listener = socket.create_server(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{listener.getsockname()[1]}'
    grpc_server = grpc.aio.server()
    grpc_address = f'127.0.0.1:{grpc_server.add_insecure_port("127.0.0.1:0")}'
    push_configs = InMemoryPushNotificationConfigStore()
    agent_card = card(url, grpc_address)
    handler = DefaultRequestHandler(
        agent_executor=Agent(),
        task_store=InMemoryTaskStore(),
        push_config_store=push_configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), push_configs),
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(agent_card, handler), grpc_server)
    await grpc_server.start()
    rest = A2ARESTFastAPIApplication(agent_card, handler).build()
    jsonrpc = A2AStarletteApplication(agent_card, handler)
    app = Starlette(routes=[*jsonrpc.routes(), Mount('/rest', rest)])
    server = uvicorn.Server(uvicorn.Config(app, log_level='warning'))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    harness.ready(url, grpc_address)
    await harness.until_abandoned()
    server.should_exit = server.force_exit = True
    await grpc_server.stop(None)
    await serving


asyncio.run(main())
