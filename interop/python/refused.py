"""Has a call refused, once as a whole and once as a stream, and sees what the SDK's own client makes of it.

`--url URL` is the agent's; `--reason TEXT` must stand in what the client raises. Says what became of it in one JSON line.
"""

import argparse
import asyncio
import json
import uuid

import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.helpers import new_text_part
from a2a.types import a2a_pb2 as a2a


async def refusal(client):
    """What is raised, as its user reads it."""
    said = a2a.Message(role=a2a.ROLE_USER, message_id=str(uuid.uuid4()), parts=[new_text_part('hello')])
    try:
        async for _ in client.send_message(a2a.SendMessageRequest(message=said)):
            pass
    except A2AClientError as error:
        return str(error)
    raise AssertionError('it was let through')


async def run():
    parser = argparse.ArgumentParser()
    parser.add_argument('--url', required=True)
    parser.add_argument('--reason', required=True)
    arguments = parser.parse_args()
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, arguments.url).get_agent_card()
        for streaming in (False, True):
            config = ClientConfig(
                streaming=streaming, httpx_client=http, supported_protocol_bindings=['JSONRPC']
            )
            raised = await refusal(ClientFactory(config).create(card))
            if arguments.reason not in raised:
                return 'failed', f'streaming {streaming}: {raised}'
    return 'ok', raised


try:
    outcome, detail = asyncio.run(run())
except Exception as error:  # noqa: BLE001, what is wrong is what we are here to tell
    outcome, detail = 'failed', f'{type(error).__name__}: {error}'
print(json.dumps({'scenario': 'refused', 'outcome': outcome, 'detail': detail}), flush=True)
