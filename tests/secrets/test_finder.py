"""Well-known shapes of secrets are hidden; what only looks like them stays."""

from __future__ import annotations

import base64
import random
import string
import time

import pytest

from holdfast.secrets.redaction import Redactor
from tests.secrets.private_keys import KEYS

REDACTOR = Redactor()
PIECE = 8


def fill(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """Random, but the same in every run."""
    return "".join(random.Random(count).choices(alphabet, k=count))


HEX = string.digits + "abcdef"
URL = string.ascii_letters + string.digits + "_-"
JWT = f"eyJ{fill(30)}"

SECRETS: dict[str, tuple[str, str]] = {
    # what is printed, and the part of it that must not be seen
    "aws": ("AKIA{}", fill(16, string.ascii_uppercase + string.digits)),
    "github": ("ghp_{}", fill(36)),
    "github, fine": ("github_pat_{}", fill(60)),
    "gitlab": ("glpat-{}", fill(20)),
    "gitlab, deploy": ("gldt-{}", fill(20)),
    "gitlab, runner": ("glrt-{}", fill(20)),
    "slack": ("xoxb-{}", "123456789012-123456789012-" + fill(24)),
    "slack, rotated": ("xoxe.xoxp-1-{}", fill(60)),
    "slack, app": ("xapp-1-{}", "A0123456789-1234567890123-" + fill(64, HEX)),
    "slack, webhook": ("hooks.slack.com/services/{}", f"T0{fill(9)}/B0{fill(9)}/{fill(24)}"),
    "slack, trigger": ("https://hooks.slack.com/triggers/{}", f"T0{fill(9)}/123/{fill(32)}"),
    "discord, webhook": ("https://discord.com/api/webhooks/{}", "1234567890/" + fill(68)),
    "office, webhook": ("https://x.webhook.office.com/webhookb2/{}", fill(60)),
    "telegram": ("https://api.telegram.org/bot123456789{}/x", ":AA" + fill(33, URL)),
    "openai": ("sk-proj-{}", fill(48, URL)),
    "anthropic": ("sk-ant-api03-{}", fill(90, URL)),
    "groq": ("gsk_{}", fill(52)),
    "hugging face": ("hf_{}", fill(34)),
    "stripe": ("sk_live_{}", fill(24)),
    "stripe, restricted": ("rk_test_{}", fill(24)),
    "stripe, webhook": ("whsec_{}", fill(32)),
    "twilio": ("SK{}", fill(32, HEX)),
    "sendgrid": ("SG.{}", f"{fill(22, URL)}.{fill(43, URL)}"),
    "mailgun": ("key-{}", fill(32, HEX)),
    "google": ("AIza{}", fill(35, URL)),
    "google, client": ("GOCSPX-{}", fill(28, URL)),
    "google, access": ("ya29.{}", fill(60, URL)),
    "google, key id": ('"private_key_id": "{}"', fill(40, HEX)),
    "azure, storage": ("AccountName=x;AccountKey={};EndpointSuffix=y", fill(86) + "=="),
    "azure, bus": ("Endpoint=sb://x/;SharedAccessKey={}", fill(43) + "="),
    "azure, signature": ("https://x.example/c?sv=2022&sig={}&se=1", fill(43) + "%3D"),
    "azure, client": ("abc8{}", "Q~" + fill(34, URL)),
    "npm": ("npm_{}", fill(36)),
    "pypi": ("pypi-{}", "AgEIcHlwaS5vcmc" + fill(60, URL)),
    "rubygems": ("rubygems_{}", fill(48, HEX)),
    "docker": ("dckr_pat_{}", fill(27, URL)),
    "digitalocean": ("dop_v1_{}", fill(64, HEX)),
    "shopify": ("shpat_{}", fill(32, HEX)),
    "square": ("sq0atp-{}", fill(22, URL)),
    "vault": ("hvs.{}", fill(90, URL)),
    "databricks": ("dapi{}", fill(32, HEX)),
    "planetscale": ("pscale_tkn_{}", fill(43)),
    "tailscale": ("tskey-auth-{}", fill(40)),
    "new relic": ("NRAK-{}", fill(27, string.ascii_uppercase)),
    "postman": ("PMAK-{}", f"{fill(24, HEX)}-{fill(34, HEX)}"),
    "sentry": ("sntrys_{}", fill(60)),
    "grafana": ("glsa_{}", f"{fill(32)}_{fill(8, HEX)}"),
    "linear": ("lin_api_{}", fill(40)),
    "atlassian": ("ATATT3xFf{}", "GF0" + fill(180, URL)),
    "datadog": ("DD_API_KEY={}", fill(32, HEX)),
    "age": ("AGE-SECRET-KEY-1{}", fill(58, string.ascii_uppercase + string.digits)),
    "wireguard": ("PrivateKey = {}", fill(43) + "="),
    "jwt": ("{}", f"{JWT}.{fill(60, URL)}.{fill(43, URL)}"),
    "jwe": ("{}", f"{JWT}.{fill(50, URL)}.{fill(16, URL)}.{fill(60, URL)}.{fill(22, URL)}"),
    "jwe, direct": ("{}", f"{JWT}..{fill(16, URL)}.{fill(60, URL)}.{fill(22, URL)}"),
    "kubernetes": ("tls.key: {}", base64.b64encode("\n".join(KEYS["rsa"]).encode()).decode()),
    "redis": ("redis://:{}@cache:6379/0", fill(20)),
    "mongodb": ("mongodb+srv://app:{}@c.example/db", fill(20)),
    "amqp": ("amqp://app:{}@mq:5672/%2f", fill(20)),
    "postgresql": ("postgresql+asyncpg://app:{}@db/x", fill(20)),
    "a slash in a password": ("postgres://app:{}@db:5432/x", "Kq3/vT9xZr7mWp2L"),
    "slashes as in JSON": (r'{{"url":"redis:\/\/:{}@cache\/0"}}', fill(20)),
    "another scheme": ("Authorization: ApiKey {}", fill(30)),
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(
    "line", ["{}", "got '{}' from there", "x=1 {}\n", '"{}",', "\x1b[31m{}\x1b[0m"]
)
def test_hidden(name: str, line: str) -> None:
    """Alone, quoted, among words, in colours: no eight characters of it are seen."""
    if '"' in SECRETS[name][0] and '"' in line:
        return
    printed, secret = SECRETS[name]
    if printed.startswith("Authorization") and line not in ("{}", "x=1 {}\n"):
        return  # a header ends its line
    shown = REDACTOR.mask(line.replace("{}", printed.format(secret)).encode()).decode()
    pieces = {secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1)}
    assert not [piece for piece in pieces if piece in shown], shown


@pytest.mark.parametrize(
    "line",
    [
        "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
        "request 3f6c1de2-9b0a-4c57-8e1d-2a7f0b9c6d54 done",
        "sha256:4e35b956cf45792e4caa5885e69fba00bdbc6ffafbfa020300e549b208ee5ff1",
        "sha512-" + fill(86) + "==",
        "data:image/png;base64," + fill(400),
        "\n".join([fill(76)] * 20),
        "/srv/app/releases/20261117180000/node_modules/some-very-long-package-name/dist/index.js",
        "src/components/sk-loading-indicator-component.tsx",
        "class sk-folding-cube-container is-active",
        "task-0123456789abcdef0123 finished",
        "npm_config_cache_folder_is_there and npm_lifecycle_event",
        "pypi-mirror is up; hf_hub is down; whsec is short",
        "https://example.com:8080/a/b@2x.png and http://[::1]:3000/x@y",
        "see https://example.com/@scope/package@1.2.3/index.js",
        "git@github.example:org/repo.git",
        "design=1&config=abcdefghijklmnopqrstuvwxyz",
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/asyncio/base_events.py", line 653, in run_until_complete\n'
        "    return future.result()\n"
        "KeyError: 'account_name_of_the_customer_in_the_order'",
        "SKIPPED tests/test_a.py; SKU SK1234; ASK0123456789abcdef0123456789abcdef",
        "msg.SG.short.x and SG.1.2",
        "12:30:45:AAPL rose; 12345678:AB",
        "eyJust a word; eyJ.short",
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" + fill(60),
        "key-value store, key-0123 and monkey-0123456789abcdef0123456789abcdef",
        "dapiservice dapi0123 sandapi",
        "-----BEGIN CERTIFICATE-----\n" + f"{fill(64)}\n" * 12 + "-----END CERTIFICATE-----",
    ],
)  # fmt: skip
def test_visible(line: str) -> None:
    """Hashes, identifiers, images, long names, tracebacks and words that begin alike."""
    assert REDACTOR.mask(line.encode()).decode() == line


HOSTILE = [
    "token:", "token=${a}", "token: x ", 'password="', "://a:", "eyJaaaaaaaa.", "sk-a", "Q~",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY----------END PRIVATE KEY-----",
    "-----BEGIN A A A A ", "Private-Lines: 1 ", "key_key_", "bearer ", "12345678:AA",
]  # fmt: skip


@pytest.mark.parametrize("word", HOSTILE)
def test_no_line_keeps_it_busy(word: str) -> None:
    """Four times the text takes about four times the time, not sixteen times."""
    spent = []
    for count in (50_000, 200_000):
        data = (word * (count // len(word))).encode()
        began = time.process_time()
        REDACTOR.mask(data)
        spent.append(time.process_time() - began)
    assert spent[1] < 8 * max(spent[0], 0.02)
