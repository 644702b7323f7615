"""Stands in for a model: an OpenAI-compatible chat endpoint that says how it was told to be, and what it was asked.

Its answers are streamed word by word, and counted, as those of a real one are. Put the URL of a real one into chancery.toml.
"""

import json
import sys

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def words_of(messages):
    system = [said['content'] for said in messages if said['role'] == 'system']
    asked = messages[-1]['content'] if messages else ''
    manner = system[0].split('\n')[0].rstrip('.') if system else 'Plainly'
    return f'({manner}) {asked}'.split(' ')


class Chat(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers['content-length'])))
        words = words_of(asked['messages'])
        usage = {'prompt_tokens': len(json.dumps(asked['messages'])) // 4, 'completion_tokens': len(words)}
        self.send_response(200)
        self.send_header('content-type', 'text/event-stream')
        self.send_header('connection', 'close')
        self.end_headers()
        for number, word in enumerate(words):
            piece = word if number == 0 else ' ' + word
            self.tell({'choices': [{'index': 0, 'delta': {'content': piece}, 'finish_reason': None}]})
        self.tell({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})
        self.tell({'choices': [], 'usage': usage})
        self.wfile.write(b'data: [DONE]\n\n')
        self.close_connection = True

    def tell(self, event):
        self.wfile.write(b'data: ' + json.dumps(event).encode() + b'\n\n')

    def log_message(self, *_):
        pass


ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Chat).serve_forever()
