"""Strands as the caller: its agent for remote agents, given nothing but a URL."""

import asyncio
import logging
import warnings

from strands.agent.a2a_agent import A2AAgent

import harness

from harness import expect


def text_of(result):
    return ''.join(content.get('text', '') for content in result.message['content'])


class Scenarios:
    def __init__(self, url):
        self._agent = A2AAgent(endpoint=url)

    def all(self):
        return [self.text, self.chunks, self.failure]

    async def text(self):
        result = await self._agent.invoke_async(harness.GREETING)
        expect(text_of(result) == harness.GREETING, f'text {text_of(result)!r}')

    async def chunks(self):
        texts = []
        async for event in self._agent.stream_async('tck-stream-chunked'):
            # What the SDK that it is built on reads: at once, since that adds later chunks to the first.
            update = event['event'][1] if event.get('type') == 'a2a_stream' else None
            texts += [part.root.text for part in update.artifact.parts] if hasattr(update, 'artifact') else []
        expect(texts == ['chunk-1 ', 'chunk-2'], f'chunks {texts}')

    async def failure(self):
        result = await self._agent.invoke_async('tck-task-failure')
        expect('fails, as asked' in text_of(result), f'result {result}')


async def main():
    warnings.simplefilter('ignore')
    logging.disable(logging.CRITICAL)
    await harness.run(Scenarios(harness.arguments().url).all())


asyncio.run(main())
