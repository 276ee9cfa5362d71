"""What every process needs: start and stop, settings, logs, health, metrics, the key queue, back-off.

Nothing here knows NATS, Kubernetes or Talos.
"""

from libs.runtime.backoff import Backoff
from libs.runtime.health import Health
from libs.runtime.logs import log, set_up_logs
from libs.runtime.parts import PartEndedError, run_until_stopped
from libs.runtime.process import CannotStartError, ListenError, Service, main, version
from libs.runtime.queue import KeyQueue
from libs.runtime.settings import CommonSettings, SettingsError, read_file, settings_from_environ, split_listen

__all__ = [
    "Backoff",
    "CannotStartError",
    "CommonSettings",
    "Health",
    "KeyQueue",
    "ListenError",
    "PartEndedError",
    "Service",
    "SettingsError",
    "log",
    "main",
    "read_file",
    "run_until_stopped",
    "set_up_logs",
    "settings_from_environ",
    "split_listen",
    "version",
]
