"""A whole agent: looks with kubectl, hands in a diagnosis, repairs, and says that the incident is over."""

import json
import os
import subprocess

import httpx

DESK = os.environ.get("API_URL") or f"http://{os.environ['API_HOSTNAME']}:{os.environ['API_PORT']}"


def kubectl(*words: str) -> str:
    return subprocess.run(["kubectl", *words], capture_output=True, text=True, check=True, timeout=60).stdout


def submit(solution: str, stage: str) -> None:
    answer = httpx.post(f"{DESK}/submit", json={"solution": solution, "stage": stage}, timeout=60)
    print(answer.json()["message"], flush=True)


listed = json.loads(kubectl("get", "deployments", "--output=json"))["items"]
empty = [one["metadata"]["name"] for one in listed if one["spec"]["replicas"] == 0]
found = [f"The Deployment {name} was scaled to 0 replicas: no pod runs, and requests to it fail." for name in empty]
submit(" ".join(found) or "unknown", "diagnosis")
for name in empty:
    print(kubectl("scale", "deployment", name, "--replicas=1"), flush=True)
submit("", "mitigation")
