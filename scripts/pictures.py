"""Takes the pictures of docs/guides/img/ from a real demo, in a real browser, in both themes.

`python scripts/pictures.py [NAME…]`: all, or those of these names. It needs what the tests in
tests/e2e need. The demo has a project and a state of its own and ends with the script.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from playwright.sync_api import Page

TARGET = ROOT / "docs" / "guides" / "img"
PLACES = {
    "overview": "",
    "services": "services?group=tag",
    "tiles": "services?view=tiles",
    "graph": "services?view=graph",
    "service": "services/catalog",
    "history": "services/catalog/history",
    "config": "services/checkout/config",
    "logs": "logs?s=api-gateway,payments,catalog",
    "metrics": "metrics?s=payments,checkout,api-gateway&range=10m",
    "terminals": "terminals/console",
    "sessions": "sessions",
    "mcp": "mcp",
    "held": "mcp/tickets/held",
    "try": "mcp/tickets/try?tool=search_tickets",
    "workflows": "workflows",
    "schedules": "schedules",
    "audit": "audit",
    "access": "access?who=deploy&about=restart&on=postgres",
    "connect": "connect",
    "security": "security",
    "policies": "security/policies",
    "settings": "settings",
}
"""Each picture, and the address that it shows. A page that does not exist has no picture."""
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
ON_A_PHONE = ("overview", "logs", "sessions")
QUALITY = 78
WARM_SECONDS = 75.0
"""So long the demo runs before the first picture: charts need something to show."""
WORK = """
import random, sys, time
number = 0
while True:
    end = time.monotonic() + random.random() * float(sys.argv[1])
    while time.monotonic() < end:
        pass
    number += 1
    print(f"GET /items/{number} 200 {random.randrange(3, 40)} ms", flush=True)
    if number % 9 == 0:
        print(f"WARN slow query: {random.randrange(200, 900)} ms", file=sys.stderr, flush=True)
    time.sleep(0.7)
"""
TICKETS = """
import json, os, sys
def tool(name, about, reads, required, **properties):
    schema = {"type": "object", "required": required, "properties": properties}
    return {"name": name, "description": about, "inputSchema": schema,
            "annotations": {"readOnlyHint": reads}}
text, number = {"type": "string"}, {"type": "integer", "default": 10}
state = {"enum": ["open", "closed", "any"]}
label = " A label may be given." if os.environ.get("NEWER") else ""
labels = {"labels": {"type": "array", "items": text}} if label else {}
TOOLS = [
    tool("search_tickets", "Find tickets by what they say.", True, ["query"],
         query={**text, "description": "a few words"}, state=state, limit=number),
    tool("read_ticket", "Read one ticket with its comments.", True, ["id"], id={"type": "integer"}),
    tool("create_ticket", "Create a ticket." + label, False, ["title"],
         title=text, body=text, **labels),
]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    match asked["method"]:
        case "initialize":
            result = {"protocolVersion": asked["params"]["protocolVersion"],
                      "capabilities": {"tools": {}},
                      "serverInfo": {"name": "tickets", "version": "1.4.0"}}
        case "tools/list":
            result = {"tools": TOOLS}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "#42 payments are slow (open)"}]}
        case _:
            result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
CRASH = (
    "echo connecting to postgres at 127.0.0.1:5432; sleep 1.5;"
    " echo 'FATAL could not open index: permission denied on data/idx.lock' >&2;"
    " echo '  at open_index (catalog/index.py:118)' >&2; exit 1"
)


def services() -> dict[str, Any]:
    """A shop, of which one service crashes and another is unhealthy."""
    work = ["python3", "work.py"]
    quick = {"start_seconds": 0.1, "stop": {"grace": "500ms"}, "autostart": False}
    found: dict[str, dict[str, Any]] = {
        "postgres": {"command": "sleep 100000", "tags": ["infra"]},
        "redis": {"command": "sleep 100000", "tags": ["infra"]},
        "catalog": {
            "command": ["sh", "-c", CRASH],
            "depends_on": ["postgres"],
            "tags": ["shop"],
            "restart": {"delay": "6s", "max_delay": "12s", "max_restarts": 50},
        },
        "payments": {
            "command": [*work, "0.3"],
            "depends_on": ["postgres", "redis"],
            "tags": ["shop"],
        },
        "checkout": {
            "command": [*work, "0.2"],
            "depends_on": {"payments": {"condition": "ready"}},
            "tags": ["shop"],
            "health_check": {"exec": ["true"], "interval": "5s"},
        },
        "search": {"command": [*work, "0.1"], "depends_on": {"catalog": {"condition": "ready"}}},
        "api-gateway": {
            "command": [*work, "0.1"],
            "depends_on": ["checkout"],
            "tags": ["shop"],
        },
        "email": {"command": [*work, "0.05"], "depends_on": ["redis"], "tags": ["jobs"]},
        "images": {"command": [*work, "0.2"], "tags": ["jobs"], "instances": 3},
        "report": {
            "command": "echo done",
            "tags": ["jobs"],
            "schedule": {"cron": "0 3 * * *"},
            "autostart": True,
        },
        "sweep": {"command": "true", "schedule": {"every": "20s"}, "autostart": True},
        "scratch": {"command": [*work, "0.05"], "tags": ["dev"]},
        "console": {"command": "sh", "terminal": True, "tags": ["dev"]},
    }
    return {name: {**quick, **fields} for name, fields in found.items()}


class Demo:
    """A Holdfast of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="demo-"))
        self.project = self.folder / "shop"
        self.project.mkdir()
        for name in ("s", "r"):
            (self.folder / name).mkdir(mode=0o700)
        self.environ = {
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            "XDG_STATE_HOME": str(self.folder / "s"),
            "XDG_RUNTIME_DIR": str(self.folder / "r"),
            "HOME": str(self.folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PS1": "$ ",
            "HOLDFAST_TCP": "off",
        }
        (self.project / "work.py").write_text(WORK)
        (self.project / "tickets.py").write_text(TICKETS)
        release = {
            "description": "Build, then restart the workers",
            "steps": ["echo building", {"restart": "images"}, {"wait": {"service": "images@1"}}],
        }
        migrate = {"description": "Change the tables", "steps": ["false", {"restart": "payments"}]}
        data = {
            "name": "data",
            "effect": "confirm",
            "commands": ["restart", "stop"],
            "tags": ["infra"],
            "reason": "the data is the whole team's",
            "approve_within": "1h",
        }
        night = {
            "name": "night",
            "effect": "deny",
            "roles": ["agent"],
            "commands": ["write_*", "git_*"],
            "times": "22:00-06:00",
        }
        config = {
            "http_port": 0,
            "monitoring_interval": "1s",
            "services": services(),
            "commands": {"allow_terminals": True},
            "workflows": {"release": release, "migrate": migrate},
            "runtime_mode": "advanced",
            "policies": [data, night],
            "mcp": {"run": True},
            "mcp_servers": {"tickets": {"command": ["python3", "tickets.py"]}},
        }
        self.config = config
        (self.project / "holdfast.json").write_text(json.dumps(config, indent=1))

    def holdfast(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and words[0] not in ("start", "down", "workflow"):
            raise SystemExit(f"holdfast {' '.join(words)}: {done.stderr}")
        return done.stdout

    def populate(self) -> None:
        """Let a program and an assistant in; the assistant asks for what needs an approval, and a
        server tells another definition than the one that was approved."""
        address = self.login().partition("/login#")[0]
        root = address.replace("holdfast.localhost", "127.0.0.1")
        tokens = [
            self.ask(root, "tokens", self.admin(), token_name=name, role=role, **limits)["text"]
            for name, role, limits in (
                ("deploy", "operator", {"tags": ["shop", "infra"], "expires_in": 30 * 86400}),
                ("wallboard", "viewer", {"services": ["api-gateway", "checkout"]}),
                ("laptop", "operator", {"expires_in": 7 * 86400}),
            )
        ]
        opened = self.ask(root, "sessions", tokens[2], client="claude-code", grace=3600.0)
        session = opened["token"]
        self.ask(root, "services/start", session, services=["scratch"], wait=False)
        for query in ("payments slow", "refund"):
            call = {"tool": "tickets__search_tickets", "arguments": {"query": query}}
            self.ask(root, "mcp/read", self.admin(), **call)
        Thread(target=self.wait_for_approval, args=(root, session), daemon=True).start()
        newer = {"tickets": {"command": ["python3", "tickets.py"], "env": {"NEWER": "1"}}}
        config = {**self.config, "mcp_servers": newer}
        (self.project / "holdfast.json").write_text(json.dumps(config, indent=1))
        self.holdfast("reload")
        self.holdfast("restart", "tickets")

    def wait_for_approval(self, root: str, token: str) -> None:
        with suppress(OSError):  # the demo ends before anybody decides
            self.ask(root, "services/restart", token, services=["postgres"])

    def admin(self) -> str:
        return Path(self.holdfast("token", "path").strip()).read_text().strip()

    def login(self) -> str:
        return str(json.loads(self.holdfast("dashboard", "--json"))["url"])

    def ask(self, root: str, path: str, token: str, **fields: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps(fields).encode()
        request = urllib.request.Request(f"{root}/api/{path}", body, headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def close(self) -> None:
        self.holdfast("down")
        shutil.rmtree(self.folder, ignore_errors=True)


def take(page: Page, name: str) -> None:
    client = page.context.new_cdp_session(page)
    options = {"format": "webp", "quality": QUALITY}
    data = client.send("Page.captureScreenshot", options)["data"]
    client.detach()
    (TARGET / f"{name}.webp").write_bytes(base64.b64decode(data))
    sys.stdout.write(f"{name}.webp\n")


def show(page: Page, base: str, path: str) -> bool:
    """Open a page and wait until it shows something; False: there is no such page."""
    page.goto(base + path)
    page.wait_for_selector("main [data-page], main [data-state]")
    if page.locator("main [data-state=missing]").count():
        return False
    # Charts, sparklines and lines of logs come after the page.
    time.sleep(2.5)
    return True


def main(names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    from tests.e2e.conftest import FLAGS, program

    TARGET.mkdir(parents=True, exist_ok=True)
    wanted = {name: path for name, path in PLACES.items() if not names or name in names}
    demo = Demo()
    try:
        demo.holdfast("up", "-d")
        started = [name for name, one in services().items() if "schedule" not in one]
        started.remove("scratch")
        demo.holdfast("start", "--no-wait", *started)
        demo.holdfast("workflow", "run", "migrate")
        demo.holdfast("workflow", "run", "release")
        demo.populate()
        time.sleep(WARM_SECONDS if not names else 5)
        with sync_playwright() as playwright:
            flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            browser = playwright.chromium.launch(executable_path=program(), args=flags)
            for theme, size in (("dark", WIDE), ("light", WIDE), ("dark", PHONE)):
                context = browser.new_context(
                    viewport=size,  # type: ignore[arg-type]
                    color_scheme=theme,  # type: ignore[arg-type]
                    reduced_motion="reduce",
                )
                page = context.new_page()
                link = demo.login()
                page.goto(link)
                page.wait_for_selector("[data-page=overview]")
                base = f"{link.partition('/login#')[0]}/dashboard/"
                for name, path in wanted.items():
                    if size is PHONE and name not in ON_A_PHONE:
                        continue
                    if show(page, base, path):
                        take(page, f"{name}-{'phone' if size is PHONE else theme}")
                context.close()
            browser.close()
    finally:
        demo.close()


if __name__ == "__main__":
    main(sys.argv[1:])
