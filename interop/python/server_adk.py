"""An agent of Google's ADK, served by ADK itself, that behaves as README.md says as far as an ADK agent can."""

import asyncio
import logging
import socket
import warnings

from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types

import harness
import script


class Interop(BaseAgent):
    async def _run_async_impl(self, context):
        parts = context.user_content.parts
        text = parts[0].text or ''
        if text.startswith('tck-echo'):
            yield self._event(parts, context)
            return
        contents = [event.content for event in context.session.events if event.author == 'user']
        said = [part.text for content in contents for part in content.parts if part.text]
        async for piece in script.pieces(said):
            yield self._event([types.Part(text=piece)], context)

    def _event(self, parts, context):
        content = types.Content(role='model', parts=list(parts))
        return Event(author=self.name, invocation_id=context.invocation_id, content=content)


async def main():
    warnings.simplefilter('ignore')
    logging.disable(logging.ERROR)
    listener = socket.create_server(('127.0.0.1', 0))
    port = listener.getsockname()[1]
    agent = Interop(name='interop', description='Behaves as the interop scenarios ask')
    app = to_a2a(agent, host='127.0.0.1', port=port)
    await harness.serve(app, listener)


asyncio.run(main())
