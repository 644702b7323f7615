"""An agent of Microsoft's Agent Framework, served as its documentation has it: the card names no version of the protocol."""

import asyncio
import logging
import socket

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    ResponseStream,
)
from agent_framework.a2a import A2AExecutor
from starlette.applications import Starlette

import harness
import script


class Scripted(BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **_):
        said = [message.text for message in messages if message.role == 'user']

        async def updates():
            async for piece in script.pieces(said):
                yield ChatResponseUpdate(role='assistant', contents=[Content.from_text(piece)])

        async def response():
            return ChatResponse(messages=[Message(role='assistant', contents=[await script.whole(said)])])

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else response()


async def main():
    logging.disable(logging.CRITICAL)
    listener = socket.create_server(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{listener.getsockname()[1]}/'
    card = AgentCard(
        name='Interop',
        description='Behaves as the interop scenarios ask',
        version='1.0.0',
        default_input_modes=['text'],
        default_output_modes=['text'],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=url, protocol_binding='JSONRPC')],
        skills=[],
    )
    agent = Agent(client=Scripted(), name='Interop', instructions='Behave as the scenarios ask.')
    handler = DefaultRequestHandler(
        agent_executor=A2AExecutor(agent, stream=True), task_store=InMemoryTaskStore(), agent_card=card
    )
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, '/')])
    await harness.serve(app, listener)


asyncio.run(main())
