"""The client of a2a-sdk 1.x against every agent of examples/fleet, found by the fleet's own card, on every binding.

Every card on the way is read by the official Protocol Buffers types, strictly: what they do not know is a mistake.
"""

import asyncio
import json
import pathlib
import uuid

from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_text_part
from a2a.types import a2a_pb2 as a2a
from google.protobuf.json_format import ParseDict

import grpc.aio
import harness
import httpx

from harness import expect

BINDINGS = ['JSONRPC', 'HTTP+JSON', 'GRPC']
FLEET = 'urn:chancery:ext:fleet:v1'
V1 = {'A2A-Version': '1.0'}
PLAY = json.loads(pathlib.Path(__file__).parent.with_name('fleet.json').read_text())


def strict(card):
    return ParseDict(card, a2a.AgentCard(), ignore_unknown_fields=False)


def text_of(parts):
    return ''.join(part.text for part in parts)


class Fleet:
    def __init__(self, url, http):
        self._url, self._http, self._cards = url, http, {}

    def scenarios(self):
        """Pairs of a name and what to do."""
        yield 'fleet card', self.fleet_card
        for name in PLAY['answers']:
            yield f'{name} cards', lambda name=name: self.cards(name)
            for binding in BINDINGS:
                yield f'{name} {binding} send', lambda at=(name, binding): self.send(*at)
                yield f'{name} {binding} stream', lambda at=(name, binding): self.stream(*at)

    async def _get(self, url):
        answer = await self._http.get(url, headers=V1)
        expect(answer.status_code == 200, f'{url} answers {answer.status_code}')
        return answer.json()

    async def fleet_card(self):
        """The extension names the members' paths."""
        card = strict(await self._get(f'{self._url}/.well-known/agent-card.json'))
        found = [one for one in card.capabilities.extensions if one.uri == FLEET]
        expect(len(found) == 1, f'{len(found)} extensions of the fleet')
        members = {one['name']: one for one in found[0].params['members']}
        expect(set(members) == set(PLAY['answers']), f'members {sorted(members)}')
        for name, member in members.items():
            expect(member['url'] == f'{self._url}/agents/{name}', f'{name} is at {member["url"]}')
            self._cards[name] = strict(await self._get(member['card']))
        await self._extended(self._url, card)
        return f'{len(members)} members'

    async def cards(self, name):
        """Its card at both paths and for its skill alone, and the one for callers who are known."""
        url = f'{self._url}/agents/{name}'
        for path in ('agent-card.json', 'agent.json'):
            card = strict(await self._get(f'{url}/.well-known/{path}'))
            expect(card == self._cards[name], f'{path} is another card')
        for skill in card.skills:
            alone = strict(await self._get(f'{url}/skills/{skill.id}/.well-known/agent-card.json'))
            expect([one.id for one in alone.skills] == [skill.id], f'skills {alone.skills}')
        await self._extended(url, card)

    async def _extended(self, url, card):
        if not card.capabilities.extended_agent_card:
            return
        strict(await self._get(f'{url}/extendedAgentCard'))
        asked = {'jsonrpc': '2.0', 'id': 1, 'method': 'GetExtendedAgentCard', 'params': {}}
        answer = await self._http.post(f'{url}/', json=asked, headers=V1)
        strict(answer.json()['result'])

    def _client(self, name, binding, streaming):
        config = ClientConfig(
            streaming=streaming,
            httpx_client=self._http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
        )
        return ClientFactory(config).create(self._cards[name])

    def _request(self):
        parts = [new_text_part(PLAY['asked'])]
        said = a2a.Message(role=a2a.ROLE_USER, message_id=str(uuid.uuid4()), parts=parts)
        return a2a.SendMessageRequest(message=said)

    async def send(self, name, binding):
        async for answer in self._client(name, binding, False).send_message(self._request()):
            task = answer.task
            state = a2a.TaskState.Name(task.status.state)
            expect(task.status.state == a2a.TASK_STATE_COMPLETED, f'{state}: {task.status.message}')
            said = text_of(part for artifact in task.artifacts for part in artifact.parts)
            expect(said == PLAY['answers'][name], f'said {said!r}')
            return
        raise AssertionError('no answer')

    async def stream(self, name, binding):
        events = [one async for one in self._client(name, binding, True).send_message(self._request())]
        expect(events and events[0].HasField('task'), f'the first event is {events[:1]}')
        chunks = [one.artifact_update.artifact for one in events if one.HasField('artifact_update')]
        said = text_of(part for artifact in chunks for part in artifact.parts)
        expect(said == PLAY['answers'][name], f'said {said!r}')
        last = events[-1].status_update.status.state
        expect(last == a2a.TASK_STATE_COMPLETED, f'ends {events[-1]}')
        return f'{len(events)} events'


async def main():
    given = harness.arguments(with_binding=False)
    async with httpx.AsyncClient(timeout=harness.PATIENCE_SECONDS) as http:
        await harness.run_named(Fleet(given.url, http).scenarios())


asyncio.run(main())
