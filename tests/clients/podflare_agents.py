# SPDX-License-Identifier: Apache-2.0
"""Run by test_podflare_integrations.py in an environment of its own: an agent of one framework, whose model is scripted and whose tool is Podflare's
integration of it. `podflare_agents.py NAME` prints what came of it as JSON. The script has the model run one cell, then another that needs what the first
left behind, then one that fails, and then answer with what it was last told."""

import http.server
import json
import sys
import threading

CELLS = [{"code": r"kept = 'Gr\u00fc\u00dfe \u2028 \U0001f600'" + "\nlen(kept)"}, {"code": "print(kept)"}, {"code": "(exit 3)", "language": "bash"}]
ANSWER = "that is all"


class ScriptedModel(http.server.ThreadingHTTPServer):
    """Answers each POST with the next of `answers`, and keeps what it was asked."""

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), ModelHandler)
        self.answers, self.asked = list(answers), []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class ModelHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = json.dumps(self.server.answers.pop(0)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def openai_agents():
    """openai-agents: the tool that podflare_code_interpreter() makes, run by Runner."""
    import asyncio

    from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    from podflare.integrations.openai_agents import podflare_code_interpreter

    class Scripted(Model):
        calls = iter(enumerate(CELLS))

        async def get_response(self, *_, **__):
            number, cell = next(self.calls, (None, None))
            if cell is None:
                text = ResponseOutputText(type="output_text", text=ANSWER, annotations=[])
                item = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            else:
                item = ResponseFunctionToolCall(type="function_call", call_id=f"c{number}", name="run_code", arguments=json.dumps(cell))
            return ModelResponse(output=[item], usage=Usage(), response_id=None)

        def stream_response(self, *_, **__):
            raise NotImplementedError

    set_tracing_disabled(True)
    tool = podflare_code_interpreter()
    result = asyncio.run(Runner.run(Agent(name="a", tools=[tool], model=Scripted()), "go"))
    tool.close_podflare_sandbox()
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return outputs, result.final_output


def anthropic():
    """anthropic: tool_use blocks of a real client, each handed to handle_code_execution_tool_use()."""
    from anthropic import Anthropic
    from podflare import Sandbox
    from podflare.integrations.anthropic import handle_code_execution_tool_use

    def message(content, stop):
        return {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": content, "stop_reason": stop, "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1}}

    cells = [*CELLS[:2], {"code": "raise SystemExit"}, {"code": "1 / 0"}]
    model = ScriptedModel([message([{"type": "tool_use", "id": f"t{number}", "name": "code_execution", "input": cell}], "tool_use") for number, cell in enumerate(cells)]
                          + [message([{"type": "text", "text": ANSWER}], "end_turn")])
    client = Anthropic(base_url=model.url, api_key="none")
    messages, results = [{"role": "user", "content": "go"}], []
    with Sandbox() as sandbox:
        while True:
            response = client.messages.create(model="scripted", max_tokens=100, messages=messages, tools=[{"type": "code_execution_20250825", "name": "code_execution"}])
            messages.append({"role": "assistant", "content": response.content})
            if response.stop_reason != "tool_use":
                break
            told = [handle_code_execution_tool_use(block, sandbox) for block in response.content if block.type == "tool_use"]
            results += told
            messages.append({"role": "user", "content": told})
    assert model.asked[-1]["messages"][2]["content"] == [results[0]], "the model is told what came of it"
    return results, response.content[0].text


def langchain():
    """langchain-core and langgraph: PodflareTool in a graph that calls a model and its tools."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.prebuilt import create_react_agent
    from podflare.langchain import PodflareTool

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self):
            return "scripted"

        def bind_tools(self, tools, **_):
            assert [tool.name for tool in tools] == ["run_code"]
            return self

        def _generate(self, messages, stop=None, run_manager=None, **_):
            number = sum(message.type == "tool" for message in messages)
            message = AIMessage(ANSWER) if number == len(CELLS) else AIMessage("", tool_calls=[{"name": "run_code", "args": CELLS[number], "id": f"c{number}"}])
            return ChatResult(generations=[ChatGeneration(message=message)])

    tool = PodflareTool()
    out = create_react_agent(model=Scripted(), tools=[tool]).invoke({"messages": [("user", "go")]})
    tool.close()
    fresh = PodflareTool(persistent_sandbox=False)
    fresh.invoke({"code": "kept = 1"})
    outputs = [message.content for message in out["messages"] if message.type == "tool"]
    return [*outputs, fresh.invoke({"code": "kept"})], out["messages"][-1].content


def gemini():
    """google-genai: function calls of a real client, each handed to run_function_call()."""
    from google import genai
    from google.genai import types
    from podflare import Sandbox
    from podflare.gemini import podflare_function_declaration, run_function_call

    def candidate(part):
        return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}

    model = ScriptedModel([candidate({"functionCall": {"name": "run_code", "args": cell}}) for cell in CELLS] + [candidate({"text": ANSWER})])
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=model.url))
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[podflare_function_declaration()])])
    contents, results = [types.Content(role="user", parts=[types.Part(text="go")])], []
    with Sandbox() as sandbox:
        while True:
            response = client.models.generate_content(model="scripted", contents=contents, config=config)
            contents.append(response.candidates[0].content)
            calls = [part.function_call for part in response.candidates[0].content.parts if part.function_call]
            if not calls:
                break
            told = [run_function_call(call, sandbox) for call in calls]
            results += told
            contents.append(types.Content(role="user", parts=[types.Part.from_function_response(name=call.name, response=answer) for call, answer in zip(calls, told)]))
        results.append(run_function_call({"name": "other", "args": {}}, sandbox))
    assert model.asked[0]["tools"][0]["functionDeclarations"][0]["name"] == "run_code"
    return results, response.text


if __name__ == "__main__":
    outputs, answer = {"openai_agents": openai_agents, "anthropic": anthropic, "langchain": langchain, "gemini": gemini}[sys.argv[1]]()
    print(json.dumps({"outputs": outputs, "answer": answer}))
