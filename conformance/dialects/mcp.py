"""MCP tasks, the extension io.modelcontextprotocol/tasks of the 2026-07-28 protocol, over HTTP with JSON answers."""

import json

from conformance.dialects.speech import Answer, Body, Dialect, Moment, Request, stamp


class Tasks(Dialect):
    """`tools/call` makes a task, `tasks/get` looks at it; `pollIntervalMs` is the wish when to be asked again."""

    name = "mcp-tasks"
    words = {
        "running": "working", "succeeded": "completed", "failed": "failed", "cancelled": "cancelled", "paused": "input_required",
        "unknown": "recalibrating", "unknown-terminal": "rejected",
    }  # fmt: skip
    speaks = frozenset({"body", "not-found", "state", "result", "error", "id", "expiry", "poll-hint", "submit"})

    def kind(self, request: Request) -> str:
        """By the method of the call."""
        return {"tasks/get": "look", "tools/call": "submit"}.get(str(_call(request).get("method")), "setup")

    def look(self, moment: Moment) -> Answer:
        """The task."""
        step = moment.step
        task: Body = {
            "resultType": "complete", "taskId": moment.id, "status": moment.word(self.words), "createdAt": stamp(0),
            "lastUpdatedAt": stamp(moment.now), "ttlMs": None,
        }  # fmt: skip
        if "id" in step.without:
            del task["taskId"]
        if "state" in step.without:
            del task["status"]
        if moment.has("result"):
            task["result"] = {
                "content": [{"type": "text", "text": moment.result_url}],
                "isError": False,
                "resultType": "complete",
            }
        if moment.has("error"):
            task["error"] = {"code": -32603, "message": "the job failed"}
        if step.expires is not None:
            task["ttlMs"] = int(step.expires * 1000)
        if step.hint is not None:
            task["pollIntervalMs"] = int(step.hint * 1000)
        if step.say == "paused":
            ask = {"method": "elicitation/create", "params": {"message": "Go on?", "requestedSchema": {"type": "object"}}}
            task["inputRequests"] = {"q1": ask}
        return _result(moment.request, task)

    def submit(self, moment: Moment) -> Answer:
        """The new task."""
        task: Body = {
            "resultType": "task", "taskId": moment.job, "status": "working", "createdAt": stamp(0), "lastUpdatedAt": stamp(0),
            "ttlMs": None,
        }  # fmt: skip
        return _result(moment.request, task)

    def other(self, moment: Moment) -> Answer:
        """The talk before and beside the task."""
        call = _call(moment.request)
        if call.get("method") == "server/discover":
            tasks: Body = {"io.modelcontextprotocol/tasks": {}}
            body: Body = {
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "extensions": tasks},
                "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "acme", "version": "1"}},
                "serverInfo": {"name": "acme", "version": "1"},
            }  # fmt: skip
            return _result(moment.request, body)
        if call.get("method") == "tools/list":
            tool = {"name": "render", "inputSchema": {"type": "object"}}
            return _result(moment.request, {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"})
        if "id" not in call:
            return Answer({}, status=202)
        return Answer({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no such method"}})

    def failure(self, moment: Moment, status: int) -> Answer:
        """An HTTP error; 404 is the protocol's own answer for an unknown task."""
        if status == 404:
            error = {"code": -32602, "message": "no such task"}
            return Answer({"jsonrpc": "2.0", "id": _call(moment.request).get("id"), "error": error})
        return super().failure(moment, status)


def _call(request: Request) -> dict[str, object]:
    try:
        call = json.loads(request.body or b"{}")
    except ValueError:
        return {}
    return call if isinstance(call, dict) else {}


def _result(request: Request, result: Body) -> Answer:
    return Answer({"jsonrpc": "2.0", "id": _call(request).get("id"), "result": result})
