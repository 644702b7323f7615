"""A graph of LangGraph, served by its own server, in memory."""

import asyncio
import json
import logging
import os
import pathlib
import shutil
import socket
import tempfile
import threading
import urllib.request

import harness

HERE = pathlib.Path(__file__).parent
# What the server keeps on the disk is gone with it.
FOLDER = tempfile.mkdtemp()


def announce(port):
    """Tells where the agent is as soon as the server has it, and ends the process when it is abandoned."""
    search = urllib.request.Request(
        f'http://127.0.0.1:{port}/assistants/search', b'{}', {'content-type': 'application/json'}
    )
    while True:
        try:
            assistants = json.load(urllib.request.urlopen(search))  # noqa: S310, it is ours
            break
        except OSError:
            threading.Event().wait(0.1)
    harness.ready(f'http://127.0.0.1:{port}/a2a/{assistants[0]["assistant_id"]}')
    asyncio.run(harness.until_abandoned())
    shutil.rmtree(FOLDER, ignore_errors=True)
    os._exit(0)


def main():
    os.environ.update(LANGSMITH_TRACING='false', LANGGRAPH_NO_VERSION_CHECK='true', LOG_LEVEL='CRITICAL')
    os.environ['PYTHONPATH'] = str(HERE)
    os.chdir(FOLDER)
    from langgraph_api.cli import run_server  # noqa: PLC0415, it reads the environment

    logging.disable(logging.CRITICAL)
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    threading.Thread(target=announce, args=[port], daemon=True).start()
    graphs = {'interop': str(HERE / 'graph_langgraph.py') + ':graph'}
    run_server('127.0.0.1', port, reload=False, graphs=graphs, open_browser=False, n_jobs_per_worker=4)


main()
