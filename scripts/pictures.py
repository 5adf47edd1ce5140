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
from pathlib import Path
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
    "workflows": "workflows",
    "schedules": "schedules",
    "audit": "audit",
    "access": "access",
    "connect": "connect",
    "security": "security",
    "policies": "security/policies",
    "settings": "settings",
}
"""Each picture, and the address that it shows. A page that does not exist has no picture."""
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
ON_A_PHONE = ("overview", "logs")
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
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "XDG_STATE_HOME": str(self.folder / "s"),
            "XDG_RUNTIME_DIR": str(self.folder / "r"),
            "HOME": str(self.folder),
            "PS1": "$ ",
            "HOLDFAST_TCP": "off",
        }
        (self.project / "work.py").write_text(WORK)
        release = {
            "description": "Build, then restart the workers",
            "steps": ["echo building", {"restart": "images"}, {"wait": {"service": "images@1"}}],
        }
        migrate = {"description": "Change the tables", "steps": ["false", {"restart": "payments"}]}
        data = {
            "name": "data",
            "effect": "confirm",
            "commands": ["restart", "stop"],
            "services": ["postgres"],
            "reason": "the data is the whole team's",
        }
        night = {"name": "night", "effect": "deny", "roles": ["agent"], "times": "22:00-06:00"}
        config = {
            "http_port": 0,
            "monitoring_interval": "1s",
            "services": services(),
            "commands": {"allow_terminals": True},
            "workflows": {"release": release, "migrate": migrate},
            "runtime_mode": "advanced",
            "policies": [data, night],
        }
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
        demo.holdfast("start", "--no-wait", *started)
        demo.holdfast("workflow", "run", "migrate")
        demo.holdfast("workflow", "run", "release")
        time.sleep(WARM_SECONDS)
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
                link = json.loads(demo.holdfast("dashboard", "--json"))["url"]
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
