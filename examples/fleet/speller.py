"""An agent on a2a-sdk 0.3, which speaks v0.3 and knows nothing newer: spells a text, letter by letter."""

import sys

from a2a import types as a2a
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.utils import new_task

import uvicorn


class Speller(AgentExecutor):
    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(new_task(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        letters = [letter for letter in context.get_user_input() if letter.isalpha()] or ['?']
        for number, letter in enumerate(letters, 1):
            await updater.add_artifact(
                [a2a.Part(root=a2a.TextPart(text=letter.upper() + '.'))],
                artifact_id='letters',
                append=number > 1,
                last_chunk=number == len(letters),
            )
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


port = int(sys.argv[1])
card = a2a.AgentCard(
    name='Speller',
    description='Spells a text',
    version='1.0.0',
    protocol_version='0.3.0',
    url=f'http://127.0.0.1:{port}/',
    preferred_transport='JSONRPC',
    capabilities=a2a.AgentCapabilities(streaming=True),
    default_input_modes=['text/plain'],
    default_output_modes=['text/plain'],
    skills=[a2a.AgentSkill(id='spell', name='Spell', description='Spells a text', tags=['text'])],
)
handler = DefaultRequestHandler(agent_executor=Speller(), task_store=InMemoryTaskStore())
uvicorn.run(A2AStarletteApplication(card, handler).build(), host='127.0.0.1', port=port, log_level='warning')
