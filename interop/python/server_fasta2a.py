"""An agent of Pydantic AI, served by FastA2A."""

import asyncio
import logging
import socket

from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent, ModelResponse, TextPart
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models.function import FunctionModel

import harness
import script


def said(messages):
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    prompts = [part.content for part in parts if isinstance(part, UserPromptPart)]
    return [text if isinstance(text, str) else ''.join(map(str, text)) for text in prompts]


async def answer(messages, _):
    return ModelResponse(parts=[TextPart(await script.whole(said(messages)))])


async def stream(messages, _):
    async for piece in script.pieces(said(messages)):
        yield piece


async def main():
    logging.disable(logging.CRITICAL)
    listener = socket.create_server(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{listener.getsockname()[1]}'
    agent = Agent(FunctionModel(answer, stream_function=stream), name='interop')
    app = agent_to_a2a(agent, url=url, description='Behaves as the interop scenarios ask')
    await harness.serve(app, listener)


asyncio.run(main())
