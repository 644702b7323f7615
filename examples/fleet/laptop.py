"""An agent that nobody can reach: it comes for its tasks, and turns each text around."""
import json, os, urllib.request

def ask(path, body=None):
    url = os.environ['INBOX'] + path
    headers = {'Authorization': 'Bearer ' + os.environ['KEY'], 'Content-Type': 'application/json'}
    return urllib.request.urlopen(urllib.request.Request(url, body, headers))

for line in ask('/stream'):
    if line.startswith(b'data: ') and 'message' in (task := json.loads(line[6:])):
        text = ' '.join(part.get('text', '') for part in task['message']['parts'])[::-1]
        ask(f'/tasks/{task["taskId"]}/result', json.dumps({'lease': task['lease'], 'text': text}).encode())
