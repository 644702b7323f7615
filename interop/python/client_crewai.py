"""CrewAI as the caller: what its agents delegate with, without any credentials."""

import asyncio
import logging
import os
import uuid

os.environ.update(CREWAI_DISABLE_TELEMETRY='true', OTEL_SDK_DISABLED='true', CREWAI_TRACING_ENABLED='false')

from crewai.a2a.updates import StreamingConfig  # noqa: E402, it reads the environment
from crewai.a2a.utils.delegation import aexecute_a2a_delegation  # noqa: E402

import harness  # noqa: E402

from harness import expect  # noqa: E402


class Scenarios:
    def __init__(self, url):
        self._url = url.rstrip('/') + '/.well-known/agent-card.json'

    def all(self):
        return [self.text, self.chunks, self.follow_up, self.input_required, self.failure]

    async def _delegate(self, text, **more):
        return await aexecute_a2a_delegation(
            endpoint=self._url,
            auth=None,
            timeout=harness.PATIENCE_SECONDS,
            task_description=text,
            updates=StreamingConfig(),
            accepted_output_modes=['text/plain', 'application/json'],
            **more,
        )

    async def text(self):
        told = await self._delegate(harness.GREETING)
        expect(told['status'] == 'completed' and harness.GREETING in told.get('result', ''), f'{told}')

    async def chunks(self):
        told = await self._delegate('tck-stream-chunked')
        expect('chunk-1' in told.get('result', '') and 'chunk-2' in told['result'], f'{told}')

    async def follow_up(self):
        context = str(uuid.uuid4())
        for _ in range(2):
            told = await self._delegate('tck-echo', context_id=context)
            contexts = {message.context_id for message in told['history'] if message.context_id}
            expect(told['status'] == 'completed' and contexts <= {context}, f'{told}')

    async def input_required(self):
        asked = await self._delegate('tck-multi-turn')
        expect(asked['status'] == 'input-required', f'{asked}')

    async def failure(self):
        told = await self._delegate('tck-task-failure')
        expect(told['status'] == 'failed' and 'as asked' in told.get('error', ''), f'{told}')


async def main():
    logging.disable(logging.CRITICAL)
    await harness.run(Scenarios(harness.arguments().url).all())


asyncio.run(main())
