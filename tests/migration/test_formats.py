"""Configurations of other supervisors become ones that Holdfast accepts, and each loss is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.adapters.config.loading import load
from holdfast.migration.findings import Findings
from holdfast.migration.formats import FORMATS, candidates, read_file, read_files
from holdfast.migration.writing import yaml_of
from holdfast.vocabulary.errors import HoldfastError, UsageError

Import = Callable[..., Findings]

SUPERVISORD = """
[unix_http_server]
file=/tmp/supervisor.sock
[supervisord]
logfile=/tmp/supervisord.log ; the main log
environment=STAGE="live"
[inet_http_server]
port=127.0.0.1:9001
[program:web]
command=/usr/bin/gunicorn -b %(ENV_HOME)s:80%(process_num)02d app:$app
process_name=%(program_name)s_%(process_num)02d
numprocs=3
directory=/tmp
priority=10
autostart=false
autorestart=unexpected
startsecs=5
startretries=4
exitcodes=0,2
stopsignal=QUIT
stopwaitsecs=20
stopasgroup=true
killasgroup=true
user=nobody
umask=022
redirect_stderr=true
stdout_logfile=/tmp/web.log
stdout_logfile_maxbytes=5MB
stdout_logfile_backups=3
environment=PORT="8000",
  GREETING="a, b",RATE=50%%
serverurl=AUTO
[program:Mail Queue]
command=bash -c 'run | tee log'   ; the shell is theirs
[group:all]
programs=web,Mail Queue
[eventlistener:memmon]
command=memmon
"""
PM2 = """
// what pm2 keeps running
module.exports = {
  apps: [{
    name: 'api', script: './server.js', args: '--port 80 --name "a b"', node_args: '--inspect',
    instances: 2, exec_mode: 'cluster', cwd: '/tmp', max_memory_restart: '300M',
    env: {NODE_ENV: 'development', URL: 'http://localhost:3000', DEBUG: true},
    env_production: {NODE_ENV: 'production'},
    watch: ['src'], ignore_watch: ['node_modules'], restart_delay: 4000, min_uptime: '10s',
    kill_timeout: 1600, max_restarts: 5, cron_restart: '0 0 * * *', wait_ready: true,
  }, {
    script: 'worker.py', autorestart: false,
  }],
  deploy: {production: {user: 'node'}},
};
"""
PROCESS_COMPOSE = """
version: "0.5"
environment: ["STAGE=dev"]
vars: {A: 1}
processes:
  db:
    command: "postgres -D data"
    readiness_probe:
      http_get: {host: 127.0.0.1, port: 8008, path: /ready}
      period_seconds: 5
      failure_threshold: 2
    shutdown: {signal: 2, timeout_seconds: 10, command: "pg_ctl stop"}
  api:
    command: "./api --db $DB > out.txt"
    working_dir: /tmp
    environment: {DB: "x=${HOME}"}
    depends_on:
      db: {condition: process_healthy}
      init: {condition: process_completed_successfully}
    availability: {restart: on_failure, backoff_seconds: 2, max_restarts: 5}
    replicas: 2
    liveness_probe: {exec: {command: "curl -f localhost | grep ok"}}
  init: {command: "make seed", availability: {restart: exit_on_failure}, namespace: setup}
  off: {command: "sleep 1", disabled: true, is_daemon: true}
"""
COMPOSE = """
services:
  web:
    image: shop/web
    command: ["./serve", "--port", "${PORT:-80}"]
    ports: ["8080:80", "9090:9090"]
    environment: [STAGE=dev, TOKEN]
    depends_on: {db: {condition: service_healthy}, redis: {condition: service_started}}
    restart: on-failure:3
    volumes: ["./data:/data"]
    healthcheck: {test: curl -f localhost, interval: 10s, retries: 2, start_period: 5s}
    deploy: {replicas: 2, resources: {limits: {memory: 512M, cpus: "0.5"}}}
    stop_grace_period: 1m30s
  db: {command: postgres, build: ., mem_limit: 1g, profiles: [data], labels: {a: b}}
  redis: {image: redis}
volumes: {data: {}}
"""
UNIT = """
[Unit]
Description=The shop
After=network.target postgresql.service
StartLimitBurst=3
[Service]
Type=notify
User=nobody
Group=nogroup
WorkingDirectory=-/tmp
Environment=A=1 "B=two words"
EnvironmentFile=-/etc/default/shop
ExecStartPre=/bin/true
ExecStart=-/usr/bin/python3 \\
  -m shop --name %n --share 50%%
Restart=on-abnormal
RestartSec=1min 30s
TimeoutStopSec=45
KillSignal=SIGINT
LimitNOFILE=65536
MemoryMax=512M
CPUQuota=150%
WatchdogSec=30
PrivateTmp=true
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def take(tmp_path: Path) -> Import:
    """Import one file, and check that Holdfast accepts what it becomes."""

    def work(name: str, text: str, **others: str) -> Findings:
        for other, content in {name: text, **others}.items():
            (tmp_path / other).write_text(content)
        found = read_file(str(tmp_path / name))
        path = tmp_path / "holdfast.yaml"
        path.write_text(yaml_of([found], str(tmp_path)))
        environ = {"HOME": "/tmp", "USER": "nobody", "HOSTNAME": "here", "DATA": "/tmp"}
        load(str(path), environ=environ)
        return found

    return work


def keys_of(found: Findings, name: str) -> dict[str, Any]:
    return next(service.keys for service in found.services if service.name == name)


def lost(found: Findings) -> str:
    return "\n".join(f"{loss.line}: {loss.what}" for loss in found.losses)


def test_supervisord(take: Import) -> None:
    """Programs with all their keys, groups, expansions; listeners and ports of its own are told."""
    found = take("supervisord.conf", SUPERVISORD)
    web = keys_of(found, "web")
    assert web["command"] == "/usr/bin/gunicorn -b ${HOME}:80{{ index - 1 }} app:$app"
    assert (web["instances"], web["autostart"], web["restart_policy"]) == (3, False, "on_failure")
    assert (web["start_seconds"], web["start_retries"]) == ("5s", 4)
    assert web["success_exit_codes"] == [0, 2]
    assert web["stop"] == {"signal": "QUIT", "grace": "20s"}
    assert web["log"] == {"max_size": "5MiB", "total_size": "20MiB"}
    assert web["env"] == {"STAGE": "live", "PORT": "8000", "GREETING": "a, b", "RATE": "50%"}
    assert keys_of(found, "mail-queue")["command"] == "bash -c 'run | tee log'"
    assert found.top["groups"] == {"all": ["web", "mail-queue"]}
    for word in ("eventlistener:memmon", "inet_http_server", "serverurl", "priority", "Mail Queue"):
        assert word in lost(found)


def test_supervisord_includes(take: Import, tmp_path: Path) -> None:
    """Files that it includes are read, too."""
    text = "[supervisord]\n[include]\nfiles = conf.d/*.ini more.conf\n"
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.ini").write_text("[program:a]\ncommand=sleep 1\n")
    found = take("supervisord.conf", text, **{"more.conf": "[program:b]\ncommand=sleep 2\n"})
    assert {service.name for service in found.services} == {"a", "b"}


def test_pm2(take: Import) -> None:
    """An ecosystem file that is plain data is read without running it."""
    found = take("ecosystem.config.js", PM2)
    api = keys_of(found, "api")
    assert api["command"] == ["node", "--inspect", "./server.js", "--port", "80", "--name", "a b"]
    assert (api["instances"], api["memory_limit"]) == (2, {"size": "300MiB", "action": "restart"})
    assert api["env"] == {
        "NODE_ENV": "development", "URL": "http://localhost:3000", "DEBUG": "true",
    }  # fmt: skip
    assert api["watch"] == {"paths": ["src"], "ignore": ["node_modules"]}
    assert api["restart"] == {"delay": "4s", "max_restarts": 5}
    assert api["stop"] == {"grace": "1600ms"}
    worker = keys_of(found, "worker")
    assert (worker["command"], worker["restart_policy"]) == (["python3", "worker.py"], "never")
    for word in ("cluster", "env_production", "cron_restart", "wait_ready", "deploy"):
        assert word in lost(found)
    assert "7: api: env_production" not in lost(found)


@pytest.mark.parametrize(
    "text",
    [
        "module.exports = {apps: [{name: 'a', script: require('./x').file}]}",
        "module.exports = {apps: [1, 2].map(n => ({script: `w${n}.js`}))}",
        "const port = 1;\nexports.apps = [{script: 'a.js'}]",
        "module.exports = {apps: [{script: 'a.js', env: {A: process.env.A}}]}",
    ],
)
def test_a_program_is_not_run(take: Import, text: str) -> None:
    """What computes its values is not guessed at: the error says how to export it."""
    with pytest.raises(UsageError) as caught:
        take("ecosystem.config.js", text)
    assert "node -p" in caught.value.hint


def test_pm2_in_json_and_yaml(take: Import) -> None:
    """Both forms, with one app and with several."""
    found = take("ecosystem.json", '{"apps": {"name": "one", "script": "a.sh"}}')
    assert keys_of(found, "one")["command"] == ["bash", "a.sh"]
    found = take("ecosystem.yaml", "apps:\n  - script: ./bin/run\n    args: [a, 'b c']\n")
    assert keys_of(found, "run")["command"] == ["./bin/run", "a", "b c"]


def test_process_compose(take: Import) -> None:
    """Probes, conditions, policies, replicas; a shell only where the line needs one."""
    found = take("process-compose.yaml", PROCESS_COMPOSE)
    db = keys_of(found, "db")
    assert "shell" not in db
    assert db["readiness"] == {
        "http": "http://127.0.0.1:8008/ready", "interval": "5s", "retries": 2,
    }  # fmt: skip
    assert db["stop"] == {"signal": 2, "grace": "10s"}
    api = keys_of(found, "api")
    assert api["shell"] is True
    assert api["env"] == {"STAGE": "dev", "DB": "x=$${HOME}"}
    assert api["depends_on"] == {"db": "ready", "init": "completed"}
    assert api["restart"] == {"delay": "2s", "backoff": 1, "max_restarts": 5}
    assert api["liveness"]["exec"] == ["sh", "-c", "curl -f localhost | grep ok"]
    assert keys_of(found, "init")["essential"] is True
    assert keys_of(found, "off")["enabled"] is False
    for word in ("vars", "shutdown.command", "is_daemon"):
        assert word in lost(found)


def test_compose(take: Import) -> None:
    """Services with a command; images, volumes and networks are named as lost, with their lines."""
    found = take("compose.yaml", COMPOSE)
    web = keys_of(found, "web")
    assert web["command"] == ["./serve", "--port", "${PORT:-80}"]
    assert (web["port"], web["instances"], web["cpu_limit"]) == (8080, 2, "50%")
    assert web["env"] == {"STAGE": "dev", "TOKEN": None}
    assert web["depends_on"] == {"db": "ready"}
    assert (web["restart_policy"], web["restart"]) == ("on_failure", {"max_restarts": 3})
    assert web["readiness"]["exec"] == ["sh", "-c", "curl -f localhost"]
    assert keys_of(found, "db")["memory_limit"] == "1GiB"
    for word in ("web: image", "web: volumes", "port 9090", "redis: it runs", "16: volumes"):
        assert word in lost(found)


def test_systemd(take: Import) -> None:
    """A unit with its limits and times; what sandboxes it is told."""
    found = take("shop.service", UNIT)
    keys = keys_of(found, "shop")
    assert keys["command"] == "/usr/bin/python3 -m shop --name shop --share 50%"
    assert (keys["user"], keys["working_dir"]) == ("nobody:nogroup", "/tmp")
    assert keys["env"] == {"A": "1", "B": "two words"}
    assert keys["env_file"] == ["-/etc/default/shop"]
    assert keys["restart"] == {"max_restarts": 3, "delay": "1m30s"}
    assert keys["stop"] == {"grace": "45s", "signal": "SIGINT"}
    assert (keys["rlimits"], keys["memory_limit"]) == ({"nofile": 65536}, "512MiB")
    assert keys["notify"] == {"watchdog": "30s"}
    for word in ("After=network.target", "ExecStartPre", "PrivateTmp"):
        assert word in lost(found)


@pytest.mark.parametrize(
    ("calendar", "cron"),
    [
        ("daily", "@daily"),
        ("*-*-* 03:30:00", "30 3 * * *"),
        ("Mon..Fri 22:15", "15 22 * * MON-FRI"),
        ("Sat,Sun *-*-* 08:05", "5 8 * * SAT,SUN"),
        ("*-*-01 00:00", "0 0 1 * *"),
        ("*:0/15", "*/15 * * * *"),
        ("Thu *-*-1..7 10:00", None),
    ],
)
def test_timers(take: Import, calendar: str, cron: str | None) -> None:
    """A calendar becomes a schedule, or is told with its line."""
    service = "[Service]\nType=oneshot\nExecStart=/bin/true\n"
    timer = f"[Timer]\nOnCalendar={calendar}\nPersistent=true\n"
    found = take("backup.timer", timer, **{"backup.service": service})
    if cron is None:
        assert f"OnCalendar={calendar}" in lost(found)
    else:
        assert keys_of(found, "backup")["schedule"] == {"cron": cron, "catch_up": True}


def test_procfile(take: Import) -> None:
    """Ports as foreman gives them, `.env`, and the formation of `.foreman`."""
    text = "# all\nweb: bundle exec puma -p $PORT\nworker: ./work | tee log\nbroken line\n"
    found = take(
        "Procfile", text, **{".env": "A=1\n", ".foreman": "formation: web=1,worker=2\nport: 6000\n"}
    )
    web, worker = keys_of(found, "web"), keys_of(found, "worker")
    assert (web["port"], web["shell"], web["env_file"]) == (6000, True, ".env")
    assert (worker["instances"], worker["port"]) == (2, "{{ index + 6099 }}")
    assert "4: " in lost(found)


def test_package_json(take: Import) -> None:
    """Servers become services; other scripts are told."""
    text = '{"scripts": {"dev": "vite", "build": "vite build", "start": "node ."}}'
    found = take("package.json", text, **{"pnpm-lock.yaml": ""})
    assert keys_of(found, "dev")["command"] == ["pnpm", "run", "dev"]
    assert keys_of(found, "start")["autostart"] is False
    assert "script build" in lost(found)


@pytest.mark.parametrize("module", FORMATS, ids=lambda one: one.__name__.rpartition(".")[2])
def test_bad_files_are_told(tmp_path: Path, module: Any) -> None:
    """Whatever is in a file of a known name: an error that says what to do, never a traceback."""
    for name in (*module.NAMES[:2], "a.service"):
        for text in ("", "{", "[]", "a: [", "\x00", "services: 3", "processes: {a: 1}", "apps: 1"):
            path = tmp_path / name
            path.write_text(text)
            found: Findings | HoldfastError
            try:
                found = read_file(str(path))
            except HoldfastError as error:
                found = error
            if isinstance(found, HoldfastError):
                assert found.hint
            else:
                yaml.safe_load(yaml_of([found], str(tmp_path)))


def test_candidates_are_files_of_known_names(tmp_path: Path) -> None:
    """Nothing else in a folder is read."""
    for name in ("Procfile", "notes.txt", "compose.yaml"):
        (tmp_path / name).write_text("")
    names = [os.path.basename(path) for path in candidates(str(tmp_path))]
    assert names == ["compose.yaml", "Procfile"]


def test_several_files(tmp_path: Path) -> None:
    """A name that two files use gets a number, also where it is needed; that is told."""
    one = "processes: {db: {command: sleep 1}, web: {command: sleep 2, depends_on: [db]}}"
    (tmp_path / "process-compose.yaml").write_text(one)
    (tmp_path / "mprocs.yaml").write_text("procs: {db: sleep 3, page: {cmd: [a], deps: [db]}}")
    names = ("process-compose.yaml", "mprocs.yaml")
    found = read_files([str(tmp_path / name) for name in names])
    text = yaml_of(found, str(tmp_path))
    services = yaml.safe_load(text)["services"]
    assert list(services) == ["db", "web", "db-2", "page"]
    assert services["page"]["depends_on"] == ["db-2"]
    assert "# mprocs.yaml:1\n  db-2:" in text
    assert 'the name "db"' in lost(found[1])


def test_a_timer_and_its_service_are_one(tmp_path: Path) -> None:
    """Naming both files gives one service."""
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "a.timer").write_text("[Timer]\nOnCalendar=daily\n")
    found = read_files([str(tmp_path / "a.service"), str(tmp_path / "a.timer")])
    assert [service.name for one in found for service in one.services] == ["a"]


def test_lines_of_included_files_are_not_those_of_the_file(take: Import, tmp_path: Path) -> None:
    """What an included file loses has no line of the file that includes it."""
    (tmp_path / "b.ini").write_text("[program:b]\ncommand=sleep 2\nserverurl=AUTO\n")
    found = take("supervisord.conf", "[supervisord]\n[include]\nfiles=b.ini\n")
    assert [loss.line for loss in found.losses if "serverurl" in loss.what] == [None]
