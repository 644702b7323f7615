"""BeeAI as the caller: its agent for remote agents, given nothing but a URL."""

import asyncio
import logging

from beeai_framework.adapters.a2a.agents import A2AAgent
from beeai_framework.memory import UnconstrainedMemory

import harness

from harness import expect


class Scenarios:
    def __init__(self, url):
        self._url = url

    def all(self):
        return [self.text, self.message, self.chunks, self.follow_up, self.input_required, self.failure]

    def _agent(self):
        return A2AAgent(url=self._url, memory=UnconstrainedMemory())

    async def text(self):
        answer = await self._agent().run(harness.GREETING)
        expect(answer.last_message.text == harness.GREETING, f'text {answer.last_message.text!r}')

    async def message(self):
        answer = await self._agent().run('tck-message-response')
        expect(answer.last_message.text == 'Direct message response', f'text {answer.last_message.text!r}')

    async def chunks(self):
        texts = []

        def take(data, _):
            # At once: the SDK that it is built on adds later chunks to the first.
            artifact = getattr(data.value[1], 'artifact', None)
            texts.extend(part.root.text for part in (artifact.parts if artifact else []))

        await self._agent().run('tck-stream-chunked').on('update', take)
        expect(texts == ['chunk-1 ', 'chunk-2'], f'chunks {texts}')

    async def follow_up(self):
        agent = self._agent()
        first = (await agent.run('tck-echo')).event[0]
        second = (await agent.run('tck-echo')).event[0]
        expect(first.context_id == second.context_id, 'another context')

    async def input_required(self):
        agent = self._agent()
        asked = (await agent.run('tck-multi-turn')).event[0]
        done = (await agent.run('done')).event[0]
        expect(asked.status.state == 'input-required', f'asked {asked}')
        expect(done.id == asked.id and done.status.state == 'completed', f'done {done}')

    async def failure(self):
        failed = (await self._agent().run('tck-task-failure')).event[0]
        expect(failed.status.state == 'failed', f'{failed}')


async def main():
    logging.disable(logging.CRITICAL)
    await harness.run(Scenarios(harness.arguments().url).all())


asyncio.run(main())
