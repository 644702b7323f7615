"""What the agents of frameworks say: a model that is no model, the same for each of them."""

import asyncio


class Failed(Exception):
    """What the agent fails with when it is asked to."""


async def pieces(said):
    """The answer, piece by piece, to the texts that a user has said in one conversation, the oldest first."""
    text = said[-1]
    if text.startswith('tck-error'):
        raise Failed('the model is broken')
    if text.startswith('tck-cancel'):
        await asyncio.Event().wait()
    if text.startswith('tck-stream-chunked'):
        yield 'chunk-1 '
        await asyncio.sleep(0.2)
        yield 'chunk-2'
        return
    yield said[0] if text.startswith('tck-recall') else text


async def whole(said):
    """The same answer at once."""
    return ''.join([piece async for piece in pieces(said)])
