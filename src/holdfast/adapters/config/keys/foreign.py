"""Keys of other supervisors that people write from memory, and what says the same here.

Only words for problems: nothing is read in their place. `holdfast import` takes over whole files.
"""

from __future__ import annotations

from holdfast.adapters.config.kinds.blocks import ForeignKey

_NO_IMAGES = ForeignKey(
    'Holdfast runs programs, not images: write command: "docker run --rm …", or the program itself',
    "command",
)
_RECORDED = ForeignKey("remove it: output is recorded, and `holdfast logs NAME` shows it")
_LOG_SIZE = ForeignKey("write log: {max_size: 16MB, total_size: 256MB}")
_INSTANCES = ForeignKey("write instances: 3")
_GRACE = ForeignKey("write stop: {grace: 10s}")
_WHOLE_TREE = ForeignKey("remove it: a stop always ends the whole tree of processes")
_READY = ForeignKey("write readiness: {http: …} or notify: true")
_MEMORY = ForeignKey("write memory_limit: 512MB, or {size: 512MB, action: restart}")
_NO_NETWORKS = ForeignKey("remove it: services share this machine's network and files")
_ORDER = ForeignKey("write depends_on: [other]; starts follow it")

SERVICE_KEYS: dict[str, ForeignKey] = {
    # compose
    "image": _NO_IMAGES,
    "build": _NO_IMAGES,
    "entrypoint": ForeignKey("write command: …", "command"),
    "container_name": ForeignKey("remove it: a service's name is its key under services:"),
    "hostname": _NO_NETWORKS,
    "networks": _NO_NETWORKS,
    "network_mode": _NO_NETWORKS,
    "volumes": ForeignKey("remove it: services see this machine's files; working_dir: says where"),
    "expose": ForeignKey("write port: 8000, or port: auto"),
    "links": _ORDER,
    "replicas": _INSTANCES,
    "scale": _INSTANCES,
    "deploy": ForeignKey("write instances: 3, memory_limit: 512MB, cpu_limit: 50%"),
    "logging": _LOG_SIZE,
    "labels": ForeignKey("write tags: [backend]"),
    "mem_limit": _MEMORY,
    "memory": _MEMORY,
    "cpus": ForeignKey("write cpu_limit: 150%, in percent of one core"),
    "pids_limit": ForeignKey("write process_limit: 100"),
    "stdin_open": ForeignKey("write stdin: pipe"),
    "init": _WHOLE_TREE,
    "extends": ForeignKey("YAML's anchors do this: &base, and <<: *base"),
    # process-compose
    "availability": ForeignKey("write restart: {policy: on_failure, max_restarts: 5}"),
    "readiness_probe": ForeignKey("write readiness: {http: …}"),
    "liveness_probe": ForeignKey("write liveness: {http: …}"),
    "shutdown": ForeignKey("write stop: {signal: SIGINT, grace: 10s}"),
    "disabled": ForeignKey("write enabled: false"),
    "namespace": ForeignKey("write tags: [backend]"),
    "is_tty": ForeignKey("write terminal: true"),
    "is_daemon": ForeignKey("let the program stay in the foreground, and remove this"),
    "log_location": _RECORDED,
    "launch_timeout_seconds": ForeignKey("write start_seconds: 5s"),
    # supervisord
    "numprocs": _INSTANCES,
    "process_name": ForeignKey("remove it: instances are called NAME@1, NAME@2"),
    "startretries": ForeignKey("write start_retries: 3"),
    "stopsignal": ForeignKey("write stop: {signal: SIGINT}"),
    "stopwaitsecs": _GRACE,
    "exitcodes": ForeignKey("write success_exit_codes: [0, 2]"),
    "priority": _ORDER,
    "killasgroup": _WHOLE_TREE,
    "stopasgroup": _WHOLE_TREE,
    "redirect_stderr": ForeignKey("remove it: both streams are recorded, each with its name"),
    **dict.fromkeys(("stdout_logfile", "stderr_logfile", "logfile"), _RECORDED),
    **dict.fromkeys(("stdout_logfile_maxbytes", "stdout_logfile_backups"), _LOG_SIZE),
    # pm2
    "script": ForeignKey("write command: node app.js", "command"),
    "interpreter": ForeignKey("write it into command: python3 app.py"),
    "interpreter_args": ForeignKey("write them into command: python3 -u app.py"),
    "node_args": ForeignKey("write them into command: node --inspect app.js"),
    "exec_mode": _INSTANCES,
    "max_memory_restart": ForeignKey("write memory_limit: {size: 1GB, action: restart}"),
    "cron": ForeignKey('write schedule: "*/5 * * * *"'),
    "cron_restart": ForeignKey('write schedule: "*/5 * * * *"; it starts the service then'),
    "ignore_watch": ForeignKey("write watch: {paths: [src], ignore: [tmp]}"),
    "min_uptime": ForeignKey("write start_seconds: 5s"),
    "wait_ready": _READY,
    "listen_timeout": _READY,
    "restart_delay": ForeignKey("write restart: {delay: 5s}"),
    "exp_backoff_restart_delay": ForeignKey("write restart: {delay: 100ms, backoff: 2}"),
    **dict.fromkeys(("out_file", "error_file", "log_file", "merge_logs"), _RECORDED),
}
ROOT_KEYS: dict[str, ForeignKey] = {
    "version": ForeignKey("remove it"),
    "apps": ForeignKey("write services: with a name for each, or use `holdfast import FILE`"),
    "volumes": _NO_NETWORKS,
    "networks": _NO_NETWORKS,
    "log_location": ForeignKey("write log_file: PATH for Holdfast's own log"),
}
