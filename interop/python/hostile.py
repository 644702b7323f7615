"""An agent of no SDK's, which misbehaves as its message asks. README.md says how; the gateway is tried against it.

Needs the standard library only. If there is an SDK, it answers gRPC as well, in the version of that SDK.
"""

import argparse
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LINEAGE = 'urn:chancery:ext:lineage:v1'
USAGE = 'urn:chancery:ext:usage:v1'
IDEMPOTENCY = 'urn:chancery:ext:idempotency:v1'

# JSON that is put into an answer word for word stands for itself until the answer is written.
VERBATIM = '@@verbatim@@'

# How many calls by gRPC there may be at a time.
GRPC_CALLS = 128

METHODS = {
    'SendMessage': 'send', 'SendStreamingMessage': 'stream', 'GetTask': 'get', 'CancelTask': 'cancel',
    'SubscribeToTask': 'subscribe', 'message/send': 'send', 'message/stream': 'stream', 'tasks/get': 'get',
    'tasks/cancel': 'cancel', 'tasks/resubscribe': 'subscribe',
}  # fmt: skip


class Task:
    """A task as the agent sees it; how it is written depends on the wire."""

    def __init__(self, task_id, context_id):
        self.id, self.context_id = task_id, context_id
        self.state, self.said, self.message_id = 'submitted', None, None
        self.said_metadata = self.metadata = self.status_metadata = None
        self.artifacts, self.history, self.begun = [], [], ''
        self.headers = {}
        self.stopped = threading.Event()

    def at(self, state, said=None, message_id=None):
        self.state, self.said, self.message_id = state, said, message_id or str(uuid.uuid4())
        return self


class Desk:
    """What the agent knows, whatever wire it was told by."""

    def __init__(self, log):
        self._log = open(log, 'a', buffering=1) if log else sys.stderr
        self._lock = threading.Lock()
        self._gates = {}
        self.tasks = {}
        # What callers have to prove themselves by, where the card's flags say `locked`.
        self.password = None
        # Tasks by the key that they were begun with, for cards that declare that keys count.
        self.keys = {}

    def note(self, event, **more):
        with self._lock:
            self._log.write(json.dumps({'event': event, **more}) + '\n')
            self._log.flush()

    def gate(self, name):
        with self._lock:
            return self._gates.setdefault(name, threading.Event())


class Asked:
    """A message, and what came with it."""

    def __init__(self, wire, message, metadata, headers, configuration=None, flags=()):
        self.wire, self.message, self.metadata, self.headers = wire, message, metadata, headers
        self.configuration = configuration or {}
        keys = [value for name, value in headers.items() if name.lower() == 'idempotency-key']
        self.key = keys[0] if keys and 'keyed' in flags else None
        parts = message.get('parts') or message.get('content') or []
        self.text = ''.join(part.get('text', '') for part in parts)
        self.word, _, self.rest = self.text.partition(' ')


# === what it does ===


def turn(desk, asked):
    """Does the work, and yields what there is to tell: pairs of a kind and what is told."""
    if asked.key in desk.keys:
        desk.note('repeat', text=asked.text, wire=asked.wire, headers=asked.headers)
        yield from watch(desk.keys[asked.key])
        return
    known = desk.tasks.get(asked.message.get('taskId'))
    context = asked.message.get('contextId') or str(uuid.uuid4())
    task = known or Task(str(uuid.uuid4()), context)
    desk.tasks[task.id] = task
    if asked.key:
        desk.keys[asked.key] = task
    desk.note(
        'execute', word=asked.word, text=asked.text, wire=asked.wire, task=task.id, context=task.context_id,
        headers=asked.headers, message=asked.message, metadata=asked.metadata, configuration=asked.configuration,
        is_new=known is None,
    )  # fmt: skip
    if not known:
        task.begun, task.headers = asked.text, asked.headers
    task.history.append(asked.message)
    word = asked.word if known is None else task.begun.partition(' ')[0]
    yield from BEHAVIOURS.get(word, echo)(desk, asked, task)


def echo(_, asked, task):
    task.artifacts = [('echo', asked.text)]
    yield 'task', task.at('completed')


def message(_, asked, task):
    yield 'message', (asked.rest, None)


def error(*_):
    yield 'error', (-32603, 'the work is done, and nobody shall know')


def busy(*_):
    yield 'busy', None


def cut(*_):
    yield 'cut', None


def nonsense(*_):
    yield 'nonsense', None


def die(*_):
    os._exit(9)
    yield


def slow(_, asked, task):
    time.sleep(int(asked.rest.split()[0]) / 1000)
    task.artifacts = [('echo', asked.text)]
    yield 'task', task.at('completed')


def hold(desk, asked, task):
    """Works until a gate is opened or the task is canceled. Streams see it working."""
    yield 'task', task.at('working', 'on it')
    yield from late(desk, asked, task)


def late(desk, asked, task):
    """The same, and nobody hears anything before it is over."""
    name, _, state = asked.rest.partition(' ')
    gate = desk.gate(name)
    while not gate.wait(0.02) and not task.stopped.is_set():
        pass
    if task.state != 'canceled':
        task.at(state.split(' ')[0] or 'completed')
    yield 'status', task


def work(_, asked, task):
    """Says that it works, and nothing ever comes of it. How it takes being canceled is its second word."""
    yield 'task', task.at('working', 'on it')


def usage(_, asked, task):
    """Reports usage in these very words: in the metadata of the task, of its status message, of a
    status that others follow at once, or of a bare message. `ask` reports them with a question."""
    where, _, words = asked.rest.partition(' ')
    report = {USAGE: f'{VERBATIM}{words}{VERBATIM}'}
    if where == 'message':
        yield 'message', ('done', report)
        return
    task.at('completed', 'done')
    if where == 'task':
        task.metadata = report
    elif where == 'status':
        task.said_metadata = report
    elif where == 'event':
        yield 'task', task.at('working')
        task.status_metadata = report
        yield 'status', task.at('completed')
        return
    elif where == 'early':
        yield 'task', task.at('working')
        task.status_metadata = report
        yield 'status', task.at('working', 'half way')
        task.status_metadata = None
        yield 'status', task.at('completed')
        return
    elif where == 'ask':
        task.metadata = report
        task.at('input-required', 'what else?')
    yield 'task', task


def spent(desk, asked, task):
    """Works, says what that has cost by now, and nothing of it when it is over. Waits for a gate in between."""
    gate, _, words = asked.rest.partition(' ')
    yield 'task', task.at('working', 'on it')
    task.status_metadata = {USAGE: f'{VERBATIM}{words}{VERBATIM}'}
    yield 'status', task.at('working', 'so much by now')
    task.status_metadata = None
    while not desk.gate(gate).wait(0.02) and not task.stopped.is_set():
        pass
    yield 'status', task.at('completed')


def mirror(_, asked, task):
    """Tells everything that it was told, wherever there is room for it."""
    heard = {'headers': asked.headers, 'message': asked.message, 'metadata': asked.metadata}
    task.metadata = task.said_metadata = {'mirror': heard}
    task.artifacts = [('mirror', json.dumps(heard))]
    yield 'task', task.at('working', json.dumps(heard))
    yield 'artifact', ('mirror', json.dumps(heard))
    yield 'status', task.at('completed', json.dumps(heard))


def mirror_message(_, asked, __):
    heard = {'headers': asked.headers, 'message': asked.message, 'metadata': asked.metadata}
    yield 'message', (json.dumps(heard), {'mirror': heard})


def mirror_ask(_, asked, task):
    task.metadata = task.said_metadata = {'mirror': {'headers': asked.headers, 'message': asked.message}}
    is_over = asked.text == 'done'
    yield 'task', task.at('completed' if is_over else 'input-required', json.dumps(asked.headers))


def mirror_hold(desk, asked, task):
    yield 'task', task.at('working', json.dumps(asked.headers))
    yield from late(desk, asked, task)


def ask(_, asked, task):
    """Asks until it is told `done`."""
    is_over = asked.text == 'done'
    yield 'task', task.at('completed' if is_over else 'input-required', f'about: {asked.text}')


def same(_, asked, task):
    """Asks, and calls all that it says by one name, which is that of the caller's message."""
    name = asked.message.get('messageId')
    if task.said is not None:
        task.history.insert(-1, {'agent': task.said, 'messageId': name})
    is_over = asked.text == 'done'
    yield 'task', task.at('completed' if is_over else 'input-required', f'about: {asked.text}', name)


def call(_, asked, task):
    """Calls another agent by way of the gateway, on behalf of this call, and counts what comes of it."""
    wanted = json.loads(asked.rest)
    token = next((value for name, value in asked.headers.items() if name.lower() == 'chancery-lineage'), None)
    counts = {}
    for number in range(wanted['times']):
        came = send(wanted, token, number)
        counts[came] = counts.get(came, 0) + 1
    task.artifacts = [('counts', json.dumps(counts))]
    yield 'task', task.at('completed')


def send(wanted, token, number):
    parts = [{'text': wanted['text']}]
    params = {'message': {'messageId': f'sub-{number}', 'role': 'ROLE_USER', 'parts': parts}}
    body = {'jsonrpc': '2.0', 'id': 1, 'method': 'SendMessage', 'params': params}
    headers = {'content-type': 'application/json', 'a2a-version': '1.0'}
    if token and wanted.get('with_token', True):
        headers['chancery-lineage'] = token
    if wanted.get('key'):
        headers['authorization'] = f'Bearer {wanted["key"]}'
    request = urllib.request.Request(wanted['url'], json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as problem:
        answer = {'error': {'message': f'HTTP {problem.code}'}}
    except OSError as problem:
        return f'broken: {type(problem).__name__}'
    return 'let through' if 'error' not in answer else answer['error']['message'].split(':')[0][:80]


BEHAVIOURS = {
    'echo': echo, 'message': message, 'error': error, 'busy': busy, 'cut': cut, 'nonsense': nonsense, 'die': die,
    'slow': slow, 'hold': hold, 'late': late, 'work': work, 'usage': usage, 'mirror': mirror, 'ask': ask,
    'mirror-message': mirror_message, 'mirror-ask': mirror_ask, 'mirror-hold': mirror_hold, 'same': same,
    'call': call, 'spent': spent,
}  # fmt: skip


def cancel(desk, wire, task_id):
    """Gives what is answered, in the words of `turn`. Nothing if there is no answer at all."""
    task = desk.tasks.get(task_id)
    desk.note('cancel', wire=wire, task=task_id, is_known=task is not None)
    words = task.begun.split(' ') if task else []
    manner = words[1] if words[:1] == ['work'] and len(words) > 1 else 'obey'
    if task is None or manner == 'forget':
        return 'error', (-32001, 'there is no such task')
    if manner == 'refuse':
        return 'error', (-32002, 'it cannot be canceled')
    if manner == 'refuse-telling':
        return 'error', (-32002, json.dumps(task.headers))
    if manner == 'tell':
        task.at('canceled', json.dumps(task.headers)).said_metadata = {'mirror': task.headers}
        task.stopped.set()
    if manner == 'hang':
        desk.gate('never').wait()
    if manner == 'obey' and task.state not in ('completed', 'failed'):
        task.at('canceled')
        task.stopped.set()
    return 'task', task


# === how it is written ===


class Words:
    """How v1.0 says it, over JSON-RPC and REST."""

    def state(self, state):
        return 'TASK_STATE_' + state.upper().replace('-', '_')

    def message(self, text, message_id, ids=None, metadata=None):
        return self.full({
            'messageId': message_id or str(uuid.uuid4()), 'role': 'ROLE_AGENT', 'parts': [{'text': text}],
            **(ids or {}), 'metadata': metadata,
        })  # fmt: skip

    def full(self, entries):
        return {name: value for name, value in entries.items() if value is not None}

    def status(self, task):
        ids = {'taskId': task.id, 'contextId': task.context_id}
        said = task.said and self.message(task.said, task.message_id, ids, task.said_metadata)
        return self.full({'state': self.state(task.state), 'message': said or None, 'timestamp': now()})

    def artifact(self, artifact_id, text):
        return {'artifactId': artifact_id, 'parts': [{'text': text}]}

    def past(self, one):
        return self.message(one['agent'], one['messageId']) if 'agent' in one else one

    def task(self, task):
        return self.full({
            'id': task.id, 'contextId': task.context_id, 'status': self.status(task),
            'artifacts': [self.artifact(*one) for one in task.artifacts] or None,
            'history': [self.past(one) for one in task.history], 'metadata': task.metadata,
        })  # fmt: skip

    def told(self, kind, what, task):
        """One thing that `turn` yields, as an answer or an event."""
        ids = {'taskId': task.id, 'contextId': task.context_id} if task else {}
        if kind == 'message':
            return {'message': self.message(what[0], None, None, what[1])}
        if kind == 'task':
            return {'task': self.task(what)}
        if kind == 'artifact':
            return {'artifactUpdate': {**ids, 'artifact': self.artifact(*what)}}
        return {'statusUpdate': self.full({**ids, 'status': self.status(what), 'metadata': what.status_metadata})}


class ProtoWords(Words):
    """How v0.3 says it over REST and gRPC."""

    def state(self, state):
        return super().state(state).replace('CANCELED', 'CANCELLED')

    def message(self, *arguments, **more):
        message = super().message(*arguments, **more)
        message['content'] = message.pop('parts')
        return message

    def told(self, kind, what, task):
        told = super().told(kind, what, task)
        if kind == 'message':
            return {'msg': told['message']}
        if kind == 'status':
            told['statusUpdate']['final'] = what.state not in ('submitted', 'working')
        return told


class OldWords(Words):
    """How v0.3 says it over JSON-RPC."""

    def state(self, state):
        return state

    def part(self, text):
        return {'kind': 'text', 'text': text}

    def message(self, text, *arguments, **more):
        message = super().message(text, *arguments, **more)
        return {**message, 'kind': 'message', 'role': 'agent', 'parts': [self.part(text)]}

    def artifact(self, artifact_id, text):
        return {'artifactId': artifact_id, 'parts': [self.part(text)]}

    def task(self, task):
        return {**super().task(task), 'kind': 'task'}

    def told(self, kind, what, task):
        told = super().told(kind, what, task)
        (inner,) = told.values()
        if kind == 'artifact':
            return {**inner, 'kind': 'artifact-update'}
        if kind == 'status':
            final = what.state not in ('submitted', 'working')
            return {**inner, 'kind': 'status-update', 'final': final}
        return inner


WORDS = {
    '1.0/jsonrpc': Words(), '1.0/rest': Words(), '1.0/grpc': Words(),
    '0.3/jsonrpc': OldWords(), '0.3/rest': ProtoWords(), '0.3/grpc': ProtoWords(),
}  # fmt: skip


def now():
    return time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime())


def written(value):
    """JSON, with what is to stand there word for word put in."""
    pieces = json.dumps(value).split(VERBATIM)
    pieces[1::2] = [json.loads(f'"{piece}"') for piece in pieces[1::2]]
    text = ''.join(pieces)
    for piece in pieces[1::2]:
        text = text.replace(f'"{piece}"', piece)
    return text


def card(version, binding, flags, base, host):
    # gRPC is at the address that the card was asked from.
    url = host if binding == 'grpc' else base
    name = {'jsonrpc': 'JSONRPC', 'rest': 'HTTP+JSON', 'grpc': 'GRPC'}[binding]
    declared = [uri for flag, uri in (('lineage', LINEAGE), ('keyed', IDEMPOTENCY)) if flag in flags]
    capabilities = {
        'streaming': 'silent' not in flags, 'pushNotifications': False,
        'extensions': [{'uri': uri} for uri in declared],
    }  # fmt: skip
    modes = ['text/plain', 'application/json']
    both = {
        'name': 'hostile', 'description': 'Misbehaves as asked', 'version': '1.0.0', 'capabilities': capabilities,
        'defaultInputModes': modes, 'defaultOutputModes': modes,
        'skills': [{'id': 'misbehave', 'name': 'Misbehave', 'description': 'As asked', 'tags': ['test']}],
    }  # fmt: skip
    if version == '1.0':
        interface = {'url': url, 'protocolBinding': name, 'protocolVersion': '1.0'}
        return {**both, 'supportedInterfaces': [interface]}
    return {**both, 'protocolVersion': '0.3.0', 'url': url, 'preferredTransport': name}


# === HTTP ===


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    desk = None

    def do_GET(self):
        self._serve({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('content-length') or 0))
        self._serve(json.loads(body) if body else {})

    do_DELETE = do_GET

    def _serve(self, body):
        if self.path.startswith('/control/open/'):
            self.desk.gate(self.path.rsplit('/', 1)[1]).set()
            self._json(200, {})
            return
        if self.path.startswith('/control/lock/'):
            self.desk.password = self.path.rsplit('/', 1)[1]
            self._json(200, {})
            return
        try:
            version, binding, flags, path = (self.path.split('?')[0].lstrip('/') + '/').split('/', 3)
        except ValueError:
            self._json(404, {'error': 'nothing is here'})
            return
        path = path.removesuffix('/')
        if '.well-known/' in path:
            base = f'http://{self.headers["host"]}/{version}/{binding}/{flags}'
            self._json(200, card(version, binding, flags.split(','), base, self.headers['host']))
            return
        self.flags = flags.split(',')
        wire = f'{version}/{binding}'
        if 'locked' in self.flags and self.headers.get('authorization') != f'Bearer {self.desk.password}':
            self._json(401, {'error': 'who are you?'})
            return
        if binding == 'jsonrpc':
            action = METHODS.get(body.get('method'))
            self._act(wire, action, body.get('params') or {}, body.get('id'))
        else:
            self._rest(wire, path.removeprefix('v1/'), body)

    def _rest(self, wire, path, body):
        if path in ('message:send', 'message:stream'):
            params = {**body, 'message': body.get('message') or body.get('request')}
            self._act(wire, path.split(':')[1], params, None)
        elif path.startswith('tasks/'):
            task_id, _, verb = path.removeprefix('tasks/').partition(':')
            self._act(wire, verb or 'get', {'id': task_id}, None)
        else:
            self._act(wire, None, {}, None)

    def _act(self, wire, action, params, request_id):
        words = WORDS[wire]
        if action in ('send', 'stream'):
            headers = dict(self.headers.items())
            configuration = params.get('configuration')
            asked = Asked(wire, params['message'], params.get('metadata'), headers, configuration, self.flags)
            steps = turn(self.desk, asked)
            if action == 'stream':
                self._stream(wire, words, steps, request_id)
                return
            kind, what, task = last(steps)
            self._answer(wire, kind, what, lambda: words.told(*as_whole(kind, what, task), task), request_id)
        elif action == 'cancel':
            kind, what = cancel(self.desk, wire, params['id'])
            self._answer(wire, kind, what, lambda: words.task(what), request_id)
        elif action == 'get':
            task = self.desk.tasks.get(params['id'])
            self.desk.note('get', wire=wire, task=params['id'], is_known=task is not None)
            kind, what = ('task', task) if task else ('error', (-32001, 'there is no such task'))
            self._answer(wire, kind, what, lambda: words.task(what), request_id)
        elif action == 'subscribe' and params['id'] in self.desk.tasks:
            self._stream(wire, words, watch(self.desk.tasks[params['id']]), request_id)
        else:
            self._answer(wire, 'error', (-32004, 'it cannot do that'), None, request_id)

    def _answer(self, wire, kind, what, result, request_id):
        is_rpc = wire.endswith('jsonrpc')
        if kind == 'cut':
            self._cut()
        elif kind == 'busy':
            self._json(503, {'error': {'code': 503, 'status': 'UNAVAILABLE', 'message': 'busy'}})
        elif kind == 'nonsense':
            self._json(200, {'jsonrpc': '2.0', 'id': request_id, 'result': {'is': 'nothing'}} if is_rpc else [])
        elif kind == 'error' and is_rpc:
            problem = {'code': what[0], 'message': what[1]}
            self._json(200, {'jsonrpc': '2.0', 'id': request_id, 'error': problem})
        elif kind == 'error':
            status, name, reason = REST_ERRORS[what[0]]
            info = {'@type': 'type.googleapis.com/google.rpc.ErrorInfo', 'reason': reason, 'domain': 'a2a-protocol.org'}
            problem = {'code': status, 'status': name, 'message': what[1], 'details': [info] if reason else []}
            self._json(status, {'error': problem} if wire == '1.0/rest' else {'message': what[1], 'code': what[0]})
        else:
            told = result()
            self._json(200, {'jsonrpc': '2.0', 'id': request_id, 'result': told} if is_rpc else told)

    def _stream(self, wire, words, steps, request_id):
        self.close_connection = True
        begun = False
        task = None
        for kind, what in steps:
            task = what if kind in ('task', 'status') else task
            if kind in ('cut', 'busy', 'nonsense', 'error') and not begun:
                self._answer(wire, kind, what, None, request_id)
                return
            if kind == 'cut':
                self._cut()
                return
            if not begun:
                self.send_response(200)
                self.send_header('content-type', 'text/event-stream')
                self.send_header('connection', 'close')
                self.end_headers()
                # What begins with a status has had no task before.
                kind, begun = 'task' if kind == 'status' else kind, True
            told = words.told(kind, what, task)
            event = {'jsonrpc': '2.0', 'id': request_id, 'result': told} if wire.endswith('jsonrpc') else told
            try:
                self.wfile.write(f'data: {written(event)}\n\n'.encode())
                self.wfile.flush()
            except OSError:
                # Nobody listens any more. The work goes on.
                self.desk.note('unheard', wire=wire)

    def _json(self, status, value):
        data = written(value).encode()
        try:
            self.send_response(status)
            self.send_header('content-type', 'application/json')
            self.send_header('content-length', str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def _cut(self):
        self.close_connection = True
        try:
            self.connection.shutdown(2)
        except OSError:
            pass

    def log_message(self, *_):
        pass


REST_ERRORS = {
    -32603: (500, 'INTERNAL', None),
    -32001: (404, 'NOT_FOUND', 'TASK_NOT_FOUND'),
    -32002: (409, 'FAILED_PRECONDITION', 'TASK_NOT_CANCELABLE'),
    -32004: (400, 'UNIMPLEMENTED', 'UNSUPPORTED_OPERATION'),
}


def last(steps):
    """What an answer as a whole tells: the last thing that there is to tell, with its task."""
    kind = what = task = None
    for kind, what in steps:
        task = what if kind in ('task', 'status') else task
    return kind, what, task


def as_whole(kind, what, task):
    return ('task', task) if kind in ('status', 'artifact') else (kind, what)


def watch(task):
    """A stream of a task that runs: as it is, and how it ends."""
    yield 'task', task
    while task.state in ('submitted', 'working'):
        time.sleep(0.02)
    yield 'status', task


# === gRPC ===


def serve_grpc(desk):
    """Gives the port, or nothing if there is no SDK."""
    try:
        import grpc

        from google.protobuf.json_format import MessageToDict, Parse
    except ImportError:
        return None
    try:
        from a2a.types import a2a_pb2 as model, a2a_pb2_grpc as services

        wire = '1.0/grpc'
    except ImportError:
        from a2a.grpc import a2a_pb2 as model, a2a_pb2_grpc as services

        wire = '0.3/grpc'
    words = WORDS[wire]
    codes = {-32001: grpc.StatusCode.NOT_FOUND, -32002: grpc.StatusCode.FAILED_PRECONDITION}

    def refuse(context, kind, what):
        if kind == 'error':
            context.abort(codes.get(what[0], grpc.StatusCode.INTERNAL), what[1])
        if kind in ('cut', 'busy'):
            context.abort(grpc.StatusCode.UNAVAILABLE, 'nobody shall know')

    def task_id(request):
        return request.name.removeprefix('tasks/') if wire == '0.3/grpc' else request.id

    class Servicer(services.A2AServiceServicer):
        def _turn(self, request, context):
            asked = MessageToDict(request)
            message = asked.get('message') or asked.get('request')
            headers = {name: str(value) for name, value in context.invocation_metadata()}
            return turn(desk, Asked(wire, message, asked.get('metadata'), headers, asked.get('configuration')))

        def SendMessage(self, request, context):
            kind, what, task = last(self._turn(request, context))
            refuse(context, kind, what)
            if kind == 'nonsense':
                return model.SendMessageResponse()
            return Parse(written(words.told(*as_whole(kind, what, task), task)), model.SendMessageResponse())

        def SendStreamingMessage(self, request, context):
            yield from self._events(self._turn(request, context), context)

        def _events(self, steps, context):
            begun, task = False, None
            for kind, what in steps:
                task = what if kind in ('task', 'status') else task
                refuse(context, kind, what)
                if kind == 'nonsense':
                    yield model.StreamResponse()
                    continue
                kind, begun = 'task' if kind == 'status' and not begun else kind, True
                yield Parse(written(words.told(kind, what, task)), model.StreamResponse())

        def GetTask(self, request, context):
            task = desk.tasks.get(task_id(request))
            desk.note('get', wire=wire, task=task_id(request), is_known=task is not None)
            if task is None:
                refuse(context, 'error', (-32001, 'there is no such task'))
            return Parse(written(words.task(task)), model.Task())

        def CancelTask(self, request, context):
            kind, what = cancel(desk, wire, task_id(request))
            refuse(context, kind, what)
            return Parse(written(words.task(what)), model.Task())

        def SubscribeToTask(self, request, context):
            if task_id(request) not in desk.tasks:
                refuse(context, 'error', (-32001, 'there is no such task'))
            yield from self._events(watch(desk.tasks[task_id(request)]), context)

        TaskSubscription = SubscribeToTask

    server = grpc.server(ThreadPoolExecutor(GRPC_CALLS))
    services.add_A2AServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    # It stops serving when nobody has it any more.
    Handler.grpc_server = server
    return port


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--log')
    # Where it is found is in the request for its card.
    parser.add_argument('--grpc-at')
    arguments = parser.parse_args()
    Handler.desk = Desk(arguments.log)
    grpc_port = serve_grpc(Handler.desk)
    server = Server(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    grpc = grpc_port and f'127.0.0.1:{grpc_port}'
    print(json.dumps({'url': f'http://127.0.0.1:{server.server_port}', 'grpc': grpc}), flush=True)
    # It ends with its standard input.
    sys.stdin.read()
    os._exit(0)


main()
