"""A runnable of BeeAI, served by BeeAI itself. What it says it says as messages; there are no tasks."""

import asyncio
import logging
import os
import socket
import threading
import urllib.request

from beeai_framework.adapters.a2a.serve.server import A2AServer, A2AServerConfig
from beeai_framework.backend import AssistantMessage
from beeai_framework.context import RunContext
from beeai_framework.emitter import Emitter
from beeai_framework.runnable import Runnable, RunnableOutput, runnable_entry
from beeai_framework.serve.utils import LRUMemoryManager

import harness
import script


class Scripted(Runnable):
    """Behaves as the interop scenarios ask"""

    @property
    def emitter(self):
        return Emitter.root().child(namespace=['interop'])

    @runnable_entry
    async def run(self, input, /, **_):  # noqa: A002, the framework calls it so
        said = [message.text for message in input if message.role == 'user']
        return RunnableOutput(output=[AssistantMessage(await script.whole(said))])


def announce(port):
    """Tells where the agent is as soon as it is well, and ends the process when it is abandoned."""
    url = f'http://127.0.0.1:{port}'
    while True:
        try:
            urllib.request.urlopen(f'{url}/health')  # noqa: S310, it is ours
            break
        except OSError:
            threading.Event().wait(0.1)
    harness.ready(url)
    asyncio.run(harness.until_abandoned())
    os._exit(0)


def main():
    logging.disable(logging.CRITICAL)
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    threading.Thread(target=announce, args=[port], daemon=True).start()
    config = A2AServerConfig(host='127.0.0.1', port=port)
    A2AServer(config=config, memory_manager=LRUMemoryManager(maxsize=100)).register(Scripted(), name='interop').serve()


main()
