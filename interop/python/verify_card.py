"""Verifies an agent's card with the SDK's own verifier, by the keys that are published where its signatures say.

`--url URL` is the agent's; `--algorithm` the only one to take. Says what became of it in one JSON line. A card in which
something was changed must not be taken.
"""

import argparse
import asyncio
import json
import urllib.request

import httpx
import jwt

from a2a.client import A2ACardResolver
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier


def keys(kid, jku):
    """The key of this name, from where it is published."""
    with urllib.request.urlopen(jku) as answer:
        published = jwt.PyJWKSet.from_dict(json.load(answer))
    try:
        return published[kid]
    except KeyError as error:
        raise jwt.PyJWTError(f'{kid} is not published') from error


async def run():
    parser = argparse.ArgumentParser()
    parser.add_argument('--url', required=True)
    parser.add_argument('--algorithm', required=True)
    arguments = parser.parse_args()
    verify = create_signature_verifier(keys, [arguments.algorithm])
    async with httpx.AsyncClient() as client:
        card = await A2ACardResolver(client, arguments.url).get_agent_card(signature_verifier=verify)
    card.description += ' '
    try:
        verify(card)
    except InvalidSignaturesError:
        return 'ok', f'{len(card.signatures)} signatures'
    return 'failed', 'a card that was changed is taken'


try:
    outcome, detail = asyncio.run(run())
except Exception as error:  # noqa: BLE001, what is wrong is what we are here to tell
    outcome, detail = 'failed', f'{type(error).__name__}: {error}'
print(json.dumps({'scenario': 'signature', 'outcome': outcome, 'detail': detail}), flush=True)
