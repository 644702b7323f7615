"""Microsoft's Agent Framework as the caller: a remote agent of its own, given a URL, and to stream a card, since it takes an agent of
which it has none for one that does not stream."""

import asyncio
import logging
import warnings

from a2a.client import A2ACardResolver
from a2a.types import TaskState
from agent_framework import AgentSession
from agent_framework.a2a import A2AAgent

import harness
import httpx

from harness import expect


class Scenarios:
    def __init__(self, url):
        self._url, self._agent = url, A2AAgent(url=url)

    def all(self):
        return [self.text, self.chunks, self.follow_up, self.input_required, self.failure]

    async def text(self):
        answer = await self._agent.run(harness.GREETING)
        expect(answer.text == harness.GREETING, f'text {answer.text!r}')

    async def chunks(self):
        async with httpx.AsyncClient() as http:
            card = await A2ACardResolver(http, self._url).get_agent_card()
        agent = A2AAgent(agent_card=card)
        pieces = [update.text async for update in agent.run('tck-stream-chunked', stream=True)]
        pieces = [piece for piece in pieces if piece]
        expect(pieces == ['chunk-1 ', 'chunk-2'], f'pieces {pieces}')

    async def follow_up(self):
        session = AgentSession()
        await self._agent.run('tck-echo', session=session)
        known = session.service_session_id['context_id']
        await self._agent.run('tck-echo', session=session)
        expect(known and session.service_session_id['context_id'] == known, f'{session.service_session_id}')

    async def input_required(self):
        session = AgentSession()
        asked = await self._agent.run('tck-multi-turn', session=session)
        task = session.service_session_id['task_id']
        await self._agent.run('done', session=session)
        expect(session.service_session_id['task_id'] == task, f'another task: {asked}')

    async def failure(self):
        session = AgentSession()
        await self._agent.run('tck-task-failure', session=session)
        state = session.service_session_id['task_state']
        expect(state == TaskState.TASK_STATE_FAILED, f'state {state}')


async def main():
    warnings.simplefilter('ignore')
    logging.disable(logging.CRITICAL)
    await harness.run(Scenarios(harness.arguments().url).all())


asyncio.run(main())
