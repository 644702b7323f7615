"""An agent on the server of a2a-sdk 1.x that behaves as README.md says, over v1.0 on every binding."""

import asyncio
import json
import socket

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2 as a2a, a2a_pb2_grpc
from starlette.applications import Starlette

import grpc.aio
import harness
import httpx
import uvicorn


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        text = context.get_user_input()
        harness.executed(text)
        if text.startswith('tck-error'):
            raise RuntimeError('the work is done')
        if text.startswith('tck-message-response'):
            await event_queue.enqueue_event(new_text_message('Direct message response', context_id=context.context_id))
            return
        if not context.current_task:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        begun = context.current_task.history[0] if context.current_task else context.message
        await self._work(begun.parts[0].text, text, context.message, updater)

    async def _report(self, text, updater):
        usage = {harness.USAGE: json.loads(text.partition(' ')[2])}
        await updater.update_status(a2a.TaskState.TASK_STATE_COMPLETED, metadata=usage)

    async def _work(self, begun, text, message, updater):
        if begun.startswith('tck-multi-turn') and text != 'done':
            question = updater.new_agent_message([new_text_part('Say `done` when you are')])
            await updater.requires_input(question)
            return
        if begun.startswith(('tck-stream-chunked', 'tck-cancel', 'tck-long-running')):
            await updater.start_work()
        if begun.startswith('tck-cancel'):
            await asyncio.Event().wait()
        if begun.startswith('tck-long-running'):
            await asyncio.sleep(1)
        if begun.startswith('tck-stream-chunked'):
            await updater.add_artifact([new_text_part('chunk-1 ')], artifact_id='chunks')
            await updater.add_artifact(
                [new_text_part('chunk-2')], artifact_id='chunks', append=True, last_chunk=True
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
    interfaces = harness.offered([('JSONRPC', f'{http}/'), ('HTTP+JSON', f'{http}/rest'), ('GRPC', grpc_address)])
    return a2a.AgentCard(
        name='interop-python-1.0',
        description='Behaves as the interop scenarios ask',
        version='1.0.0',
        provider=a2a.AgentProvider(organization='Interop', url='https://interop.example'),
        supported_interfaces=[
            a2a.AgentInterface(url=url, protocol_binding=binding, protocol_version='1.0')
            for binding, url in interfaces
        ],
        capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=['text/plain', 'application/json', 'application/octet-stream'],
        default_output_modes=['text/plain', 'application/json', 'application/octet-stream'],
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
        agent_card=agent_card,
        push_config_store=push_configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), push_configs),
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
    await grpc_server.start()
    routes = [
        *create_agent_card_routes(agent_card),
        *create_jsonrpc_routes(handler, '/'),
        *create_rest_routes(handler, path_prefix='/rest'),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level='warning'))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    harness.ready(url, grpc_address)
    await harness.until_abandoned()
    server.should_exit = server.force_exit = True
    await grpc_server.stop(None)
    await serving


asyncio.run(main())
