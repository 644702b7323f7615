"""An agent of CrewAI, which carries out what comes by A2A, served by the SDK that CrewAI comes with."""

import asyncio
import logging
import os
import socket

os.environ.update(CREWAI_DISABLE_TELEMETRY='true', OTEL_SDK_DISABLED='true', CREWAI_TRACING_ENABLED='false')

from a2a.server.agent_execution import AgentExecutor  # noqa: E402, it reads the environment
from a2a.server.apps import A2AStarletteApplication  # noqa: E402
from a2a.server.request_handlers import DefaultRequestHandler  # noqa: E402
from a2a.server.tasks import InMemoryTaskStore  # noqa: E402
from crewai import Agent  # noqa: E402
from crewai.a2a import A2AServerConfig  # noqa: E402
from crewai.a2a.utils import task  # noqa: E402
from crewai.llms.base_llm import BaseLLM  # noqa: E402

import harness  # noqa: E402
import script  # noqa: E402


class Scripted(BaseLLM):
    def call(self, messages, *_, **__):
        return asyncio.run(self.acall(messages))

    async def acall(self, messages, *_, **__):
        """What the user has said stands on a line of its own in what CrewAI makes of it."""
        text = messages if isinstance(messages, str) else messages[-1]['content']
        said = [line.strip() for line in text.splitlines() if 'tck-' in line]
        said = [line[line.index('tck-') :] for line in said]
        return 'Thought: I know.\nFinal Answer: ' + await script.whole(said[-1:] or ['nothing'])


class Executor(AgentExecutor):
    def __init__(self, agent):
        self._agent = agent

    async def execute(self, context, event_queue):
        await task.execute(self._agent, context, event_queue)

    async def cancel(self, context, event_queue):
        await task.cancel(context, event_queue)


async def main():
    logging.disable(logging.CRITICAL)
    listener = socket.create_server(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{listener.getsockname()[1]}/'
    about = {'role': 'interop', 'goal': 'Behave as the scenarios ask', 'backstory': 'A program'}
    agent = Agent(llm=Scripted(model='scripted'), a2a=A2AServerConfig(), **about)
    handler = DefaultRequestHandler(agent_executor=Executor(agent), task_store=InMemoryTaskStore())
    app = A2AStarletteApplication(agent_card=agent.to_agent_card(url), http_handler=handler).build()
    await harness.serve(app, listener)


asyncio.run(main())
