"""`python -m services.discovery`."""

from libs import runtime
from services.discovery.loop import run
from services.discovery.settings import Settings

if __name__ == "__main__":
    runtime.main("discovery", Settings, run)
