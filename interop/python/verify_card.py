"""Verifies an agent's card with the SDK's own verifier, by the keys that are published where its signatures say; and the JSON of the
card as it is fetched plainly.

`--url URL` is the agent's; `--algorithm` the only one to take. Says what became of it in one JSON line. A card in which
something was changed must not be taken.
"""

import argparse
import asyncio
import base64
import json
import urllib.request

import httpx
import jwt

from a2a.client import A2ACardResolver
from a2a.utils._jcs import canonicalize
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier


def keys(kid, jku):
    """The key of this name, from where it is published."""
    with urllib.request.urlopen(jku) as answer:
        published = jwt.PyJWKSet.from_dict(json.load(answer))
    try:
        return published[kid]
    except KeyError as error:
        raise jwt.PyJWTError(f'{kid} is not published') from error


def verify_as_served(url, algorithm):
    """The card as anybody fetches it, by its JSON alone: what is signed is all of it, in canonical form."""
    with urllib.request.urlopen(url + AGENT_CARD_WELL_KNOWN_PATH) as answer:
        card = json.load(answer)
    signatures = card.pop('signatures')
    payload = base64.urlsafe_b64encode(canonicalize(card).encode()).rstrip(b'=').decode()
    for signature in signatures:
        padded = signature['protected'] + '=' * (-len(signature['protected']) % 4)
        header = json.loads(base64.urlsafe_b64decode(padded))
        if header['alg'] != algorithm:
            continue
        token = f"{signature['protected']}.{payload}.{signature['signature']}"
        try:
            jwt.api_jws.decode(token, keys(header['kid'], header['jku']), [algorithm])
            return
        except jwt.PyJWTError:
            continue
    raise AssertionError('no signature is over the card as it is served')


async def run():
    parser = argparse.ArgumentParser()
    parser.add_argument('--url', required=True)
    parser.add_argument('--algorithm', required=True)
    arguments = parser.parse_args()
    verify_as_served(arguments.url, arguments.algorithm)
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
