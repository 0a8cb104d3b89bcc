"""Sends thousands of generated requests to a running shop and holds the answers to its own OpenAPI description.

No answer may be a 5xx or one that the description does not have: its status, content type, headers and body. And since such a
run proves nothing where it only ever meets the door, the answers that matter must all have occurred.

    API_URL=http://127.0.0.1:3000 API_KEY=payonce_… python run.py
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
URL = os.environ["API_URL"].rstrip("/")

SEED = 20_261_201
REQUESTS_MIN = 5_000
# Per operation, of which there are four; what is found at the edges of the schema comes on top.
EXAMPLES_MAX = 1_220
TIMEOUT_SECONDS = 300

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
]

# Answers without which the run has not been where it matters.
MUST_OCCUR = [
    ("POST createOrder", [201, 400, 401, 409, 422]),
    ("POST payOrder", [200, 202, 400, 401, 402, 404, 409, 422]),
    ("GET readOrder", [200, 401, 404]),
    ("GET readIntent", [200, 401, 404]),
]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        counts_file = pathlib.Path(folder, "counts.json")
        ended = schemathesis(folder, counts_file)
        rows = json.loads(counts_file.read_text(encoding="utf-8")) if counts_file.exists() else []
    counts: dict = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row["operation"]][row["status"]] += row["count"]
    show(counts)

    requests = sum(sum(statuses.values()) for statuses in counts.values())
    failures = [] if ended == 0 else [f"schemathesis ended with {ended}"]
    if requests < REQUESTS_MIN:
        failures.append(f"only {requests} requests, not {REQUESTS_MIN}")
    wanted = [(operation, status) for operation, statuses in MUST_OCCUR for status in statuses]
    failures += [f"{operation} never answered {status}" for operation, status in wanted if not counts[operation][status]]
    for failure in failures:
        print(f"failed: {failure}")
    checked = 2 + len(wanted)
    print(f"\n{requests} requests; {checked - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def schemathesis(folder: str, counts_file: pathlib.Path) -> int:
    command = [
        *[str(pathlib.Path(sys.executable).with_name("schemathesis")), "run", f"{URL}/api/openapi.json"],
        *["--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES_MAX), "--seed", str(SEED)],
        *["--checks", ",".join(CHECKS), "--workers", "1", "--request-timeout", "60", "--continue-on-failure"],
        *["--generation-database", "none", "--warnings", "off", "--no-color", "--suppress-health-check", "all"],
    ]
    environment = {
        **os.environ,
        "API_COUNTS": str(counts_file),
        "SCHEMATHESIS_HOOKS": "hooks",
        "PYTHONPATH": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # In a folder of its own, since it looks for settings where it runs.
    try:
        return subprocess.run(command, cwd=folder, env=environment, timeout=TIMEOUT_SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"schemathesis took longer than {TIMEOUT_SECONDS} s")
        return 124


def show(counts: dict) -> None:
    statuses = sorted({status for row in counts.values() for status in row})
    print("\nanswers".ljust(31) + "".join(f"{status:>7}" for status in statuses))
    for operation, row in sorted(counts.items()):
        print(f"{operation:<30}" + "".join(f"{row[status] or '':>7}" for status in statuses))


if __name__ == "__main__":
    sys.exit(main())
