"""An agent on a2a-sdk 1.x, which speaks v1.0: counts the words of a text, one after the other."""

import sys

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from starlette.applications import Starlette

import uvicorn


class Counter(AgentExecutor):
    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        words = context.get_user_input().split() or ['nothing']
        for number, word in enumerate(words, 1):
            await updater.add_artifact(
                [new_text_part(f'{number} {word} ')],
                artifact_id='count',
                append=number > 1,
                last_chunk=number == len(words),
            )
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


port = int(sys.argv[1])
url = f'http://127.0.0.1:{port}/'
card = a2a.AgentCard(
    name='Counter',
    description='Counts the words of a text',
    version='1.0.0',
    supported_interfaces=[a2a.AgentInterface(url=url, protocol_binding='JSONRPC', protocol_version='1.0')],
    capabilities=a2a.AgentCapabilities(streaming=True),
    default_input_modes=['text/plain'],
    default_output_modes=['text/plain'],
    skills=[a2a.AgentSkill(id='count', name='Count', description='Counts words', tags=['text'])],
)
handler = DefaultRequestHandler(agent_executor=Counter(), task_store=InMemoryTaskStore(), agent_card=card)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, '/')]
uvicorn.run(Starlette(routes=routes), host='127.0.0.1', port=port, log_level='warning')
