"""Kill, flip, fault, feed and fuzz for long, then print what became of it: ``make trust``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.trust.ledger import LEDGER, SCALE, table


def main() -> int:
    """Run the tests that are marked ``trust``, at ten times their size, and ``hostile``."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.jsonl"
        ledger.touch()
        environment = {SCALE: "10"} | os.environ | {LEDGER: str(ledger), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-m", "trust or hostile", "--dist=worksteal", *sys.argv[1:]]
        code = subprocess.run(command, env=environment, check=False).returncode
        print(f"\n{table(ledger)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
