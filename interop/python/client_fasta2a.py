"""FastA2A's client, which Pydantic AI comes with, as the caller."""

import asyncio
import uuid

from fasta2a.client import A2AClient
from fasta2a.schema import Message

import harness
import httpx

from harness import expect


class Scenarios:
    def __init__(self, url):
        self._client = A2AClient(http_client=httpx.AsyncClient(), agent=url)

    def all(self):
        return [self.text]

    async def text(self):
        part = {'text': harness.GREETING}
        answer = await self._client.send_message(Message(role='user', parts=[part], message_id=str(uuid.uuid4())))
        expect('task' in answer.get('result', {}), f'answer {answer}')


async def main():
    await harness.run(Scenarios(harness.arguments().url).all())


asyncio.run(main())
