"""Transfers a file with aioquic's own client and server, over sockets and with the clock of the system.

    python aioquic_sockets.py server PORT BYTES
    python aioquic_sockets.py client HOST:PORT [LABEL]

The server sends a file of BYTES bytes over each stream that a client opens. With LABEL, the client prints a
line for each read from the stream: label, time in seconds since the start of this program, `received_bytes`
and the number of bytes. The congestion control is CUBIC.

This program shares no code with the guest `examples/path/aioquic_guest.py`. Therefore, if both programs
have the same property, the code of the guest is not the cause. Requires aioquic and cryptography.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
import sys
import time

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

BEGUN = time.monotonic()


def configuration(*, is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=["file"],
        verify_mode=ssl.CERT_NONE,
        congestion_control_algorithm="cubic",
    )


async def server(port: int, size: int) -> None:
    key = Ed25519PrivateKey.generate()
    name, start = x509.Name([]), datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start.replace(year=2099))
    own = configuration(is_client=False)
    own.certificate, own.private_key = builder.sign(key, None), key

    def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(size))
        writer.write_eof()

    await serve("0.0.0.0", port, configuration=own, stream_handler=answer)
    await asyncio.Event().wait()


async def client(host: str, port: int, label: str) -> None:
    received = 0
    async with connect(host, port, configuration=configuration(is_client=True)) as connection:
        reader, writer = await connection.create_stream()
        writer.write(b"file")
        writer.write_eof()
        while data := await reader.read(1 << 16):
            received += len(data)
            if label:
                print(f"{label} {time.monotonic() - BEGUN:.9f} received_bytes {len(data)}", flush=True)
    print(f"{received} bytes received in {time.monotonic() - BEGUN:.6f} s", flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["server", port, size]:
            asyncio.run(server(int(port), int(size)))
        case ["client", address, *label]:
            host, port = address.rsplit(":", 1)
            asyncio.run(client(host, int(port), "".join(label)))
        case _:
            sys.exit("usage: aioquic_sockets.py {server PORT BYTES | client HOST:PORT [LABEL]}")


if __name__ == "__main__":
    main()
