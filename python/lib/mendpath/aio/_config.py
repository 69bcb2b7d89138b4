"""Who is trusted, who one is, and how connections behave."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Sequence, TypedDict, Union

from .. import _native

if TYPE_CHECKING:
    from typing_extensions import Unpack

Name = Union[str, os.PathLike]

# Where Linux systems keep the roots that they trust, if OpenSSL does not say.
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Options(TypedDict, total=False):
    """How connections behave; both sides have these. What is left out is as in the library."""

    #: Application protocols in order of preference; the peers must share one. ``["mendpath/1"]``.
    alpn: Sequence[Union[str, bytes]]
    #: What is done about loss: ``auto``, ``cofuso``, ``none``, ...
    recovery: str
    #: The congestion controller of every path: ``auto``, ``cubic``, ``bbr3``, ...
    congestion: str
    #: How data is shared out to paths: ``earliest-delivery``, ``lowest-rtt``, ``ecf``, ``blest`` or ``round-robin``.
    scheduler: str
    #: Seconds of silence after which the connection has ended; the smaller of both sides counts. 30; 0: never.
    idle_timeout: float
    #: Seconds without traffic after which something is sent. Never.
    keep_alive: float
    #: Bytes that the peer may have under way and unread, all streams together: what that may take in memory. 128 MiB.
    receive_window: int
    #: The same for one stream, at most. 64 MiB.
    stream_receive_window: int
    #: Bytes that may be written before they are acknowledged, all streams together, at most. 64 MiB.
    send_buffer: int
    #: Bidirectional streams that the peer may have open. 256.
    max_bidi_streams: int
    #: Unidirectional streams that the peer may have open. 256.
    max_uni_streams: int
    #: Bytes of datagrams that wait to be received; the oldest are dropped first. 0: the peer may send
    #: none. 1 MiB.
    datagram_receive_buffer: int
    #: Bytes of datagrams that wait to be sent. 1 MiB.
    datagram_send_buffer: int
    #: Whether the peer may break streams off and still deliver what it has promised of them
    #: (:meth:`StreamWriter.set_reliable_boundary`). No.
    reset_stream_at: bool
    #: Paths that may be open at a time, 1 to 64. 8.
    max_paths: int
    #: A folder for qlog files of every connection. None.
    qlog: Name
    #: Whether TLS secrets are written to the file that SSLKEYLOGFILE names. No.
    key_log: bool


def _whole(name: str, value: Optional[int]) -> None:
    """Refuses what no number of the wire is; the native half would do so by another exception."""
    if value is not None and not 0 <= value < 1 << 62:
        raise ValueError(f"{name} is from 0 to below 2^62")


def _native_options(options: Mapping[str, Any]) -> dict[str, Any]:
    known = Options.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}; there are: {', '.join(known)}")
    every: dict[str, Any] = {name: options.get(name) for name in known}
    for name, value in every.items():
        # Seconds may be whole as well, and have a limit of their own.
        if isinstance(value, int) and name not in ("idle_timeout", "keep_alive"):
            _whole(name, value)
    if every["alpn"] is not None:
        if isinstance(every["alpn"], (str, bytes)):
            raise TypeError("alpn is a list of names")
        every["alpn"] = [name.encode() if isinstance(name, str) else bytes(name) for name in every["alpn"]]
    for name in ("reset_stream_at", "key_log"):
        every[name] = bool(every[name])
    return every


def _system_roots() -> str:
    paths = ssl.get_default_verify_paths()
    for file in (paths.cafile, *BUNDLES):
        if file and os.path.exists(file):
            return file
    raise ValueError("this system has no file of root certificates: name one with `ca`, or a key with `pin`")


class ClientConfig:
    """Which servers a client trusts, and how its connections behave.

    :param ca: files in PEM, one or several: trusts servers whose certificate is valid for their name and leads to one of
        these. By default the roots of the system.
    :param pin: trusts exactly the server with this key (:attr:`Identity.pin`) instead, whatever its name.
    :param options: see :class:`Options`.
    :raises ValueError: when something cannot be.
    """

    def __init__(
        self,
        *,
        ca: Union[Name, Iterable[Name], None] = None,
        pin: Optional[str] = None,
        **options: "Unpack[Options]",
    ):
        if ca is not None and pin is not None:
            raise ValueError("a client trusts by `ca` or by `pin`, not by both")
        if ca is None:
            files = [] if pin is not None else [_system_roots()]
        else:
            files = [os.fspath(ca)] if isinstance(ca, (str, os.PathLike)) else [os.fspath(file) for file in ca]
            if not files:
                raise ValueError("`ca` names no file")
        self._native = _native.NativeClientConfig(pin, files, _native_options(options))


class ServerConfig:
    """Who a server is, and how its connections behave.

    :param certificate: file of its certificate chain in PEM, its own first.
    :param key: file of the private key in PEM.
    :param identity: an :class:`Identity` instead of both files.
    :param max_connections: connections at a time; more are refused. 10,000.
    :param max_half_open: clients whose handshake is under way; newcomers displace the oldest. 1,024.
    :param handshake_timeout: seconds that a handshake may take. 30.
    :param migration: whether clients may use other addresses than the first, and further paths.
    :param options: see :class:`Options`.
    :raises ValueError: when something cannot be.
    """

    def __init__(
        self,
        certificate: Optional[Name] = None,
        key: Optional[Name] = None,
        *,
        identity: "Optional[Identity]" = None,
        max_connections: Optional[int] = None,
        max_half_open: Optional[int] = None,
        handshake_timeout: Optional[float] = None,
        migration: bool = True,
        **options: "Unpack[Options]",
    ):
        files = None
        if certificate is not None and key is not None:
            files = (os.fspath(certificate), os.fspath(key))
        elif certificate is not None or key is not None:
            raise ValueError("a server needs both, certificate and key")
        _whole("max_connections", max_connections)
        _whole("max_half_open", max_half_open)
        self._native = _native.NativeServerConfig(
            None if identity is None else identity._native,
            files,
            (max_connections, max_half_open, handshake_timeout),
            migration,
            _native_options(options),
        )


class Identity:
    """A private key with a self-signed certificate, for servers whose clients pin the key, and for tests.

    :param names: host names and IP addresses of the certificate.
    :param pem: the key, as :meth:`to_pem` gave it; by default a new one.
    """

    def __init__(self, names: Iterable[str] = ("localhost",), pem: Optional[str] = None):
        if isinstance(names, str):
            raise TypeError("names is a list of names")
        names = list(names)
        if pem is None:
            self._native = _native.NativeIdentity.self_signed(names)
        else:
            self._native = _native.NativeIdentity.from_pem(pem, names)

    @property
    def pin(self) -> str:
        """What clients know the key by: 43 characters."""
        return self._native.pin

    @property
    def certificate(self) -> bytes:
        """The certificate in DER."""
        return bytes(self._native.certificate)

    def certificate_pem(self) -> str:
        """The certificate in PEM: clients may take it for their ``ca``."""
        return ssl.DER_cert_to_PEM_cert(self.certificate)

    def to_pem(self) -> str:
        """The private key in PEM. Keep it secret."""
        return self._native.to_pem()

    def __repr__(self) -> str:
        return f"<Identity {self.pin}>"
