"""A guest that uses only Python's standard library: the client sends 100 datagrams at random times, and the
server returns each datagram. `aqmlab guest check python examples/path/echo_guest.py` tests this guest."""

import random
import struct
import sys

NEVER = 2**64 - 1
START, RUN, STOP = 1, 2, 3
STARTED, ANSWER, STOPPED, ERROR = 129, 130, 131, 255


class Client:
    """Sends datagrams, and reports the round-trip time of each echo."""

    def __init__(self, seed):
        self.random, self.sent, self.next = random.Random(seed), [], 0

    def run(self, now, datagrams):
        events = []
        for _flow, _ecn, data in datagrams:
            number = int.from_bytes(data[:4], "little")
            events.append(("rtt_s", (now - self.sent[number]) / 1e9))
        out = []
        if len(self.sent) < 100 and now >= self.next:
            data = len(self.sent).to_bytes(4, "little") + bytes(self.random.randrange(1200))
            out.append((0, 0, data))
            self.sent.append(now)
            self.next = now + 1 + self.random.randrange(10_000_000)
        return out, self.next if len(self.sent) < 100 else NEVER, events


class Server:
    """Returns each datagram."""

    def run(self, now, datagrams):
        return datagrams, NEVER, []


def read_datagrams(body):
    """Returns the datagrams of a request to run: flow, ECN bits and contents."""
    (count,) = struct.unpack_from("<I", body, 9)
    at, found = 13, []
    for _ in range(count):
        flow, ecn, length = struct.unpack_from("<IBH", body, at)
        at += 7 + length
        found.append((flow, ecn, body[at - length : at]))
    return found


def answer(now, out, wake, events):
    """Returns the body of an answer to a request to run."""
    parts = [struct.pack("<BQQI", ANSWER, now, wake, len(out))]
    parts += [struct.pack("<IBH", flow, ecn, len(data)) + data for flow, ecn, data in out]
    parts.append(struct.pack("<I", len(events)))
    parts += [bytes([len(name)]) + name.encode() + struct.pack("<d", value) for name, value in events]
    return b"".join(parts)


def start(end, seed, config):
    """Returns the guest, and the time of its first wake-up."""
    return (Server(), NEVER) if end else (Client(seed), 0)


def serve(start):
    """Answers the requests on standard input, until the standard input ends."""
    guest = None
    while prefix := sys.stdin.buffer.read(4):
        body = sys.stdin.buffer.read(int.from_bytes(prefix, "little"))
        if body[0] == START:
            _version, end, seed = struct.unpack_from("<HBQ", body, 1)
            guest, wake = start(end, seed, body[12:].decode())
            reply = struct.pack("<BQ", STARTED, wake)
        elif body[0] == RUN:
            (now,) = struct.unpack_from("<Q", body, 1)
            reply = answer(now, *guest.run(now, read_datagrams(body)))
        else:
            reply = bytes([STOPPED])
        sys.stdout.buffer.write(len(reply).to_bytes(4, "little") + reply)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(start)
