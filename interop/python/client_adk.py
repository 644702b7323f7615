"""Google's ADK as the caller: a remote agent of its own, given nothing but the URL of a card and run by its own runner.

What it shows of the protocol is what ADK shows: events with content. It has no calls for single operations.
"""

import asyncio
import logging
import warnings

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

import harness

from harness import expect


APP, USER = 'interop', 'somebody'


class Scenarios:
    def __init__(self, card):
        self._agent = RemoteA2aAgent(name='remote', agent_card=card)
        self._sessions = InMemorySessionService()
        self._runner = Runner(app_name=APP, agent=self._agent, session_service=self._sessions)

    def all(self):
        return [self.card, self.send, self.message, self.stream, self.input_required, self.failure]

    async def _say(self, *parts, session=None):
        """All events that come of saying something, and the session that it was said in."""
        session = session or await self._sessions.create_session(app_name=APP, user_id=USER)
        parts = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
        said = types.Content(role='user', parts=parts)
        told = self._runner.run_async(user_id=USER, session_id=session.id, new_message=said)
        return [event async for event in told], session

    async def card(self):
        await self._say('tck-echo')
        card = self._agent._agent_card
        expect(card, 'ADK has no card')
        expect(card.name and card.skills, 'the card has no name or no skill')
        expect(card.capabilities.streaming, 'the card promises no streams')

    async def send(self):
        file = types.Part.from_bytes(data=harness.FILE_BYTES, mime_type='application/octet-stream')
        events, _ = await self._say(harness.GREETING, file)
        parts = [part for event in events for part in (event.content.parts if event.content else [])]
        expect(harness.GREETING in [part.text for part in parts], f'parts {parts}')
        files = [part.inline_data.data for part in parts if part.inline_data]
        expect(harness.FILE_BYTES in files, 'the bytes came back changed')

    async def message(self):
        events, _ = await self._say('tck-message-response')
        expect(texts_of(events) == ['Direct message response'], f'texts {texts_of(events)}')

    async def stream(self):
        events, _ = await self._say('tck-stream-chunked')
        text = ''.join(texts_of(events))
        expect('chunk-1 ' in text and 'chunk-2' in text, f'texts {texts_of(events)}')
        return f'{len(events)} events'

    async def input_required(self):
        asked, session = await self._say('tck-multi-turn')
        wanted = [event for event in asked if event.custom_metadata]
        states = [str(event.custom_metadata) for event in wanted]
        expect(any('INPUT_REQUIRED' in state or 'input' in state for state in states), f'events {asked}')
        done, _ = await self._say('done', session=session)
        states = [str(event.custom_metadata) for event in done]
        expect(any('COMPLETED' in state or 'completed' in state for state in states), f'events {done}')


    async def failure(self):
        events, _ = await self._say('tck-task-failure')
        expect('FAILED' in str([event.custom_metadata for event in events]), f'events {events}')


def texts_of(events):
    parts = [part for event in events for part in (event.content.parts if event.content else [])]
    return [part.text for part in parts if part.text]


async def main():
    warnings.simplefilter('ignore')
    logging.disable(logging.ERROR)
    card = harness.arguments().url.rstrip('/') + '/.well-known/agent-card.json'
    await harness.run(Scenarios(card).all())


asyncio.run(main())
