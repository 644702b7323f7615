"""An agent of Strands, served by Strands itself."""

import asyncio
import logging
import socket
import warnings

from strands import Agent
from strands.models import Model
from strands.multiagent.a2a import A2AServer

import harness
import script


class Scripted(Model):
    def update_config(self, **_):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *_, **__):
        raise NotImplementedError
        yield

    async def stream(self, messages, *_, **__):
        contents = [content for message in messages if message['role'] == 'user' for content in message['content']]
        yield {'messageStart': {'role': 'assistant'}}
        yield {'contentBlockStart': {'start': {}}}
        async for piece in script.pieces([content['text'] for content in contents if 'text' in content]):
            yield {'contentBlockDelta': {'delta': {'text': piece}}}
        yield {'contentBlockStop': {}}
        yield {'messageStop': {'stopReason': 'end_turn'}}


def agent(_):
    about = {'name': 'interop', 'description': 'Behaves as the interop scenarios ask'}
    return Agent(model=Scripted(), callback_handler=None, **about)


async def main():
    warnings.simplefilter('ignore')
    logging.disable(logging.CRITICAL)
    listener = socket.create_server(('127.0.0.1', 0))
    port = listener.getsockname()[1]
    server = A2AServer(agent_factory=agent, port=port, enable_a2a_compliant_streaming=True)
    await harness.serve(server.to_starlette_app(), listener)


asyncio.run(main())
