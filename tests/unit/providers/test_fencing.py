"""The nodes' packet filters, as the script that writes them."""

import pytest

from sregym import process
from sregym.cluster.providers.fencing import fence

ADDRESSES = {"a-control-plane": "172.18.0.2", "a-worker": "172.18.0.3"}


async def test_pods_reach_the_cluster_and_nothing_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts: dict[str, list[str]] = {}

    async def run(argv: list[str], **more: object) -> process.Completed:
        said = ""
        if argv[1] == "inspect":
            said = ADDRESSES[argv[-1]] + "\n"
        else:
            scripts[argv[2]] = argv[-1].split("; ")
        return process.Completed(argv=tuple(argv), code=0, stdout=said, stderr="", seconds=0)

    monkeypatch.setattr(process, "run", run)
    await fence(list(ADDRESSES))
    assert set(scripts) == set(ADDRESSES)
    script = scripts["a-worker"]
    allowed = [line.split(" -d ")[1].split()[0] for line in script if line.endswith("-j RETURN") and " -d " in line]
    assert allowed[:2] == ["10.244.0.0/16", "10.96.0.0/16"]
    assert set(ADDRESSES.values()) <= set(allowed)
    dropped = script.index("iptables -w -t mangle -A PODS-OUT -j DROP")
    assert all(index < dropped for index, line in enumerate(script) if "RETURN" in line)
    # The jump comes last, so that no half-written chain drops what it should not.
    assert script[-1].endswith("-I FORWARD -s 10.244.0.0/16 -m conntrack --ctstate NEW -j PODS-OUT")
    assert sum("-d 10.96.0.0/16 -j REDIRECT" in line for line in script) == 4  # tcp and udp, from pods and from nodes
