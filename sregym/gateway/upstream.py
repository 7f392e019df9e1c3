"""The API server behind the kube proxy: address, trust and our own credentials, from anyone's kubeconfig.

Client certificates, tokens and exec plugins are read by the Kubernetes client's own loader. Requests go out through
httpcore, which keeps the request target byte for byte, pools connections and hands over the raw stream after a 101.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import anyio
import httpcore
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.kube_config import KubeConfigLoader, load_kube_config

from sregym.errors import PrerequisiteError
from sregym.gateway.http1 import Headers

CREDENTIALS_FRESH_S = 60.0
"""How long a token is used before the kubeconfig (and its exec plugin, if its token has expired) is asked again."""
CONNECT_S = 10.0
IDLE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """How to reach a cluster as ourselves."""

    kubeconfig: Path
    context: str | None = None


class Upstream:
    """A pool of connections to one API server. An async context manager."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._settings: Any = Configuration()
        self._loader: KubeConfigLoader | None = None
        self._asked = 0.0
        self._lock = anyio.Lock()

    async def __aenter__(self) -> Self:
        await self._load()
        where = urlsplit(self._settings.host)
        self._secure = where.scheme == "https"
        self._host = where.hostname or ""
        self._port = where.port or (443 if self._secure else 80)
        self._prefix = where.path.rstrip("/")
        self._netloc = where.netloc.rpartition("@")[2].encode()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=self._tls() if self._secure else None,
            max_connections=None,
            max_keepalive_connections=32,
            keepalive_expiry=IDLE_S,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()

    @property
    def host(self) -> str:
        """The API server's name or address."""
        return self._host

    async def send(self, method: bytes, target: str, headers: Headers, body: Any = None) -> httpcore.Response:
        """Send one request with our credentials. The caller closes the response.

        Raises httpcore.NetworkError, httpcore.TimeoutException or httpcore.ProtocolError.
        """
        url = httpcore.URL(
            scheme=b"https" if self._secure else b"http",
            host=self._host.encode(),
            port=self._port,
            target=(self._prefix + target).encode(),
        )
        own = [(b"host", self._netloc), *await self._credentials()]
        extensions: dict[str, Any] = {"timeout": {"connect": CONNECT_S}}
        if self._secure and getattr(self._settings, "tls_server_name", None):
            extensions["sni_hostname"] = self._settings.tls_server_name
        request = httpcore.Request(method, url, headers=[*own, *headers], content=body, extensions=extensions)
        return await self._pool.handle_async_request(request)

    async def _credentials(self) -> Headers:
        async with self._lock:
            if anyio.current_time() - self._asked > CREDENTIALS_FRESH_S:
                await self._load()
        token = self._settings.api_key.get("BearerToken")
        return [(b"authorization", token.encode())] if token else []

    async def _load(self) -> None:
        try:
            if self._loader is None:
                self._loader = await load_kube_config(
                    config_file=str(self._access.kubeconfig),
                    context=self._access.context,
                    client_configuration=self._settings,
                    persist_config=False,
                )
            else:
                await self._loader.load_and_set(self._settings)
        except (ConfigException, OSError) as error:
            raise PrerequisiteError(
                f"the kubeconfig {self._access.kubeconfig} cannot be used: {error}",
                cure="check it with `kubectl --kubeconfig FILE get nodes`",
            ) from error
        self._asked = anyio.current_time()

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._settings.ssl_ca_cert)
        context.set_alpn_protocols(["http/1.1"])
        if self._settings.cert_file:
            context.load_cert_chain(self._settings.cert_file, keyfile=self._settings.key_file)
        if not self._settings.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
