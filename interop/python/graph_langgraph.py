"""The graph that LangGraph's server is given: a scripted model that streams, and an interrupt that asks back."""

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

import script


def said(messages):
    """The texts of the user: a content is a text, or a list of blocks."""
    contents = [message.content for message in messages if message.type == 'human']
    return [text if isinstance(text, str) else ''.join(block.get('text', '') for block in text) for text in contents]


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return 'scripted'

    def _generate(self, *_, **__):
        raise NotImplementedError

    async def _agenerate(self, messages, *_, **__):
        text = await script.whole(said(messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    async def _astream(self, messages, *_, **__):
        async for piece in script.pieces(said(messages)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


async def answer(state):
    texts = said(state['messages'])
    while texts[-1].startswith('tck-multi-turn') and interrupt('Say `done` when you are') != 'done':
        pass
    return {'messages': [await Scripted().ainvoke(state['messages'])]}


graph = StateGraph(MessagesState).add_node(answer).add_edge(START, 'answer').add_edge('answer', END).compile()
