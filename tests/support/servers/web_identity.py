"""Credentials of S3 as a pod on EKS has them: STS takes a token of a file for those of a role.

IAM and STS are those of the S3 server. The issuer of the tokens is what a Kubernetes cluster is for
its pods: a key, and two documents that tell whoever asks over TLS how to check what it has signed.
"""

from __future__ import annotations

import json
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple

import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.x509 import load_pem_x509_certificate

from stack.guardian import Guardian
from stack.ports import free_port
from tests.support.servers.s3 import REGION, started
from tests.support.waiting import wait_until

_HOST: Final = "127.0.0.1"
_ACCOUNT: Final = "arn:aws:iam::000000000000"
_ROLE: Final = f"{_ACCOUNT}:role/headwater"
_AUDIENCE: Final = "sts.amazonaws.com"
_SUBJECT: Final = "system:serviceaccount:shop:headwater"
_OF_OBJECTS: Final = ("Get", "Put", "Delete")
_WHEN: Final = "2026-01-01T00:00:00Z"


def rights_in(bucket: str) -> dict[str, list[str]]:
    """Those that docs/delta.md asks for, by resource."""
    return {bucket: ["s3:ListBucket"], f"{bucket}/*": [f"s3:{one}Object" for one in _OF_OBJECTS]}


class WebIdentity(NamedTuple):
    """An STS at ``url``, whose IAM an S3 server asks at ``socket``."""

    home: Path
    url: str
    socket: Path

    def environ(self, session: str, token: str = "token") -> dict[str, str]:
        """What the platform puts into a container, but for the place of STS."""
        return {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.home / token),
            "AWS_ROLE_ARN": _ROLE,
            "AWS_ROLE_SESSION_NAME": session,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_STS": self.url,
        }

    def sessions(self) -> set[str]:
        """The names of those that have the role's credentials."""
        stored = json.loads((self.home / "iam.json").read_text(encoding="utf-8"))
        return {one["roleSessionName"] for one in stored.get("sessions", {}).values()}


@contextmanager
def web_identity(
    home: Path, guardian: Guardian, rights: Mapping[str, list[str]]
) -> Iterator[WebIdentity]:
    """Until the block ends, with all it keeps below ``home``. ``rights`` are what the role may do,
    by resource."""
    home.mkdir()
    key = rsa.generate_private_key(65_537, 2_048)
    with ExitStack() as opened:
        issuer, thumbprint = opened.enter_context(_issuer(home, key))
        (home / "token").write_text(_token(key, issuer), encoding="utf-8")
        another = rsa.generate_private_key(65_537, 2_048)
        (home / "forged").write_text(_token(another, issuer), encoding="utf-8")
        (home / "iam.json").write_text(_stored(issuer, thumbprint, rights), encoding="utf-8")
        port, socket = free_port(set()), home / "socket"
        kept = ("iam", "--dir", home, "--private-ports", socket)
        process = started(home, guardian, port, *kept)
        opened.callback(process.wait, 30)
        opened.callback(process.terminate)
        wait_until(socket.exists, "IAM's socket")
        yield WebIdentity(home, f"http://{_HOST}:{port}", socket)


@contextmanager
def _issuer(home: Path, key: rsa.RSAPrivateKey) -> Iterator[tuple[str, str]]:
    """Its place, without a scheme, and the thumbprint of its certificate."""
    issued = trustme.CA().issue_cert(_HOST)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    place = home / "issuer"
    server = ThreadingHTTPServer((_HOST, 0), partial(_Documents, directory=str(place)))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer = f"{_HOST}:{server.server_port}"
    public = key.public_key().public_numbers()
    keys = {"keys": [{"kty": "RSA", "kid": "1", "n": _number(public.n), "e": _number(public.e)}]}
    (place / ".well-known").mkdir(parents=True)
    (place / "keys").write_text(json.dumps(keys), encoding="utf-8")
    (place / ".well-known" / "openid-configuration").write_text(
        json.dumps({"issuer": f"https://{issuer}", "jwks_uri": f"https://{issuer}/keys"}),
        encoding="utf-8",
    )
    thread = Thread(target=server.serve_forever, name="issuer")
    thread.start()
    try:
        last = load_pem_x509_certificate(issued.cert_chain_pems[-1].bytes())
        yield issuer, last.fingerprint(SHA1()).hex()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Documents(SimpleHTTPRequestHandler):
    def log_message(self, *_said: object) -> None:
        """Nothing."""


def _token(key: rsa.RSAPrivateKey, issuer: str) -> str:
    """A JWT of a pod's service account."""
    now = int(time.time())
    claims = {"iss": f"https://{issuer}", "aud": _AUDIENCE, "sub": _SUBJECT}
    parts = {"alg": "RS256", "kid": "1"}, {**claims, "iat": now, "exp": now + 86_400}
    signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{_text(key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _stored(issuer: str, thumbprint: str, rights: Mapping[str, list[str]]) -> str:
    """What IAM keeps: the issuer and a role for those whom it knows, with a policy."""
    provider = f"{_ACCOUNT}:oidc-provider/{issuer}"
    whom = {
        "Principal": {"Federated": provider},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{issuer}:sub": _SUBJECT}},
    }
    may = [{"Action": rights[place], "Resource": f"arn:aws:s3:::{place}"} for place in rights]
    policy = {"PolicyName": "lake", "PolicyDocument": _policy(*may)}
    role = {
        "Path": "/",
        "RoleName": "headwater",
        "RoleID": "AROAHEADWATER",
        "Arn": _ROLE,
        "CreateDate": _WHEN,
        "AssumeRolePolicyDocument": _policy(whom),
        "MaxSessionDuration": 3_600,
        "Policies": {"inline": [{**policy, "CreateDate": _WHEN, "UpdateDate": _WHEN}]},
    }
    trusted = {
        "arn": provider,
        "url": issuer,
        "clientIDList": [_AUDIENCE],
        "thumbprintList": [thumbprint],
        "createDate": _WHEN,
    }
    return json.dumps({"oidcProviders": {issuer: trusted}, "roles": {"headwater": role}})


def _policy(*statements: dict[str, Any]) -> str:
    allowed = [{"Effect": "Allow", **one} for one in statements]
    return json.dumps({"Version": "2012-10-17", "Statement": allowed})
