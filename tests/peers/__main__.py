"""`python -m tests.peers`: build what the tests need, once, and say where it is."""

import sys
from dataclasses import asdict

from tests.peers import build


def main() -> int:
    try:
        peers = build.build(lambda text: print(text, flush=True))
    except build.PeersError as error:
        print(f"tests.peers: {error}", file=sys.stderr)
        return 1
    for name, path in asdict(peers).items():
        print(f"{name.replace('_', '-'):<15} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
