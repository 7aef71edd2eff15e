"""A certificate authority of our own, for servers and clients that speak TLS; make two to test the wrong one."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = datetime.timedelta(days=2)


class CertificateAuthority:
    """Signs certificates for localhost and 127.0.0.1, and for more names and addresses if there are any.

    Attributes:
        certificate_file: the authority's own certificate (PEM): what a client gets as `ssl.ca.location`.
    """

    def __init__(
        self, folder: Path, name: str = "test authority", *, names: Sequence[str] = (), addresses: Sequence[str] = ()
    ) -> None:
        """Make a new authority whose certificate is written to `folder`; its key stays in memory.

        Args:
            names: further names in DNS of those that it certifies.
            addresses: their further addresses.
        """
        self._alternatives = [
            *(x509.DNSName(host) for host in ("localhost", *names)),
            *(x509.IPAddress(ipaddress.IPv4Address(address)) for address in ("127.0.0.1", *addresses)),
        ]
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        unsigned = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_signs_certificates(), critical=True)
        )
        certificate = unsigned.sign(self._key, hashes.SHA256())
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate_file = folder / f"{name.replace(' ', '-')}.pem"
        self.certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, target: Path, common_name: str = "localhost", organization: str | None = None) -> Path:
        """Write a key and its certificate chain to `target` (PEM), for a server on this machine as for a client.

        Kafka's key store reads it so, and so do Go's servers, which are given it as certificate and as key.
        To Kubernetes a client is the user `common_name` of the group `organization`.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = self._builder(_name(common_name, organization), key.public_key()).add_extension(
            x509.SubjectAlternativeName(self._alternatives), critical=False
        )
        certificate = unsigned.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        target.touch(mode=0o600)
        own = certificate.public_bytes(serialization.Encoding.PEM)
        target.write_bytes(private + own + self.certificate_file.read_bytes())
        return target

    def _builder(self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + _LIFETIME)
            # Python >= 3.13 takes no chain without these two.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
