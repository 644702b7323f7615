"""What every Python client here shares: one JSON line a scenario, a receiver of notifications, and `expect`."""

import argparse
import asyncio
import json
import queue
import sys
import threading

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# For how long a scenario may take.
PATIENCE_SECONDS = 20

# What `send` sends, and must get back part by part.
GREETING = 'tck-echo Grüße, 世界 🦀'
FILE_BYTES = bytes(range(256))
DATA = {'key': 'välue', 'count': 42, 'nested': {'list': [1, 2.5, True, 'x']}}

# The extension under which usage is reported.
USAGE = 'urn:chancery:ext:usage:v1'

# No server has a task of this id.
UNKNOWN_TASK = '00000000-0000-4000-8000-000000000000'


def expect(condition, complaint):
    """Fails the scenario. Unlike `assert`, also under -O."""
    if not condition:
        raise AssertionError(complaint)


def arguments(with_binding=True):
    """`--url URL --binding JSONRPC|HTTP+JSON|GRPC`"""
    parser = argparse.ArgumentParser()
    parser.add_argument('--url', required=True)
    if with_binding:
        parser.add_argument('--binding', required=True)
    return parser.parse_args()


async def run(scenarios):
    """Runs methods, each named after its scenario."""
    await run_named((scenario.__name__.replace('_', '-'), scenario) for scenario in scenarios)


async def run_named(scenarios):
    """Runs pairs of a name and a function one after the other, whatever becomes of each."""
    for name, scenario in scenarios:
        try:
            detail = await asyncio.wait_for(scenario(), PATIENCE_SECONDS)
            report(name, 'ok', detail or '')
        except asyncio.TimeoutError:
            report(name, 'failed', f'nothing more came for {PATIENCE_SECONDS} s')
        except Exception as error:  # noqa: BLE001, what is wrong is what we are here to tell
            report(name, 'failed', f'{type(error).__name__}: {error}')


def report(scenario, outcome, detail):
    # In one piece: what a framework writes from another thread comes before it or after it.
    sys.stdout.write(json.dumps({'scenario': scenario, 'outcome': outcome, 'detail': detail}) + '\n')
    sys.stdout.flush()


def server_arguments():
    """`--log FILE`, which gets a line for each message that is worked on; `--binding B`, the only one that is offered; `--grpc-at
    HOST:PORT`, where gRPC is found, if it is led there from elsewhere."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--log')
    parser.add_argument('--binding')
    parser.add_argument('--grpc-at')
    return parser.parse_args()


def executed(text):
    """Writes down that a message is worked on, before anything is done about it."""
    log = server_arguments().log
    if log:
        with open(log, 'a', buffering=1) as lines:
            lines.write(json.dumps({'event': 'execute', 'word': text.partition(' ')[0], 'text': text}) + '\n')


def offered(bindings):
    """Those of the pairs, of the name of a binding and where it is, that are to stand on the card."""
    wanted = server_arguments()
    seen = [(name, wanted.grpc_at if name == 'GRPC' and wanted.grpc_at else place) for name, place in bindings]
    return [pair for pair in seen if wanted.binding in (None, pair[0])]


def ready(url, grpc=None):
    """Says that a server is there. It goes when whoever started it closes its standard input."""
    print(json.dumps({'url': url, 'grpc': grpc}), flush=True)


async def serve(app, listener):
    """Serves an application for ASGI until it is abandoned."""
    import uvicorn  # noqa: PLC0415, clients have none

    server = uvicorn.Server(uvicorn.Config(app, log_level='critical'))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.05)
    ready(f'http://127.0.0.1:{listener.getsockname()[1]}')
    await until_abandoned()
    server.should_exit = server.force_exit = True
    await serving


async def until_abandoned():
    """Waits for the end of standard input."""
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()

    def watch():
        sys.stdin.read()
        loop.call_soon_threadsafe(gone.set)

    threading.Thread(target=watch, daemon=True).start()
    await gone.wait()


class Webhook:
    """Takes every notification, and remembers it."""

    def __init__(self):
        self._notices = queue.Queue()
        notices = self._notices

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('content-length', 0)))
                notices.put((dict(self.headers.items()), json.loads(body)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f'http://127.0.0.1:{self._server.server_port}/hook'

    async def until(self, is_end):
        """All notifications up to the one that `is_end` likes: pairs of headers (lower case) and body."""
        seen = []
        while True:
            headers, body = await asyncio.to_thread(self._notices.get, True, PATIENCE_SECONDS)
            seen.append(({name.lower(): value for name, value in headers.items()}, body))
            if is_end(body):
                return seen

    def close(self):
        self._server.shutdown()
        self._server.server_close()
