"""Messages between a warm interpreter and the process that it obeys, and the files in them."""

import os
import sys

import _socket

HERE = "/proc/self/fd/"


class Channel:
    """A stream of messages, each a list of byte strings and some open files.

    A message is its length, and for each string the string's length and the string. A length has
    four bytes in the machine's order. The files come with the first byte.
    """

    MOST_FILES = 64

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)

    def send(self, *words):
        body = b"".join(len(word).to_bytes(4, sys.byteorder) + word for word in words)
        self.socket.sendall(len(body).to_bytes(4, sys.byteorder) + body, _socket.MSG_NOSIGNAL)

    def receive(self):
        """Returns the strings of a message, and the descriptors of its files. It ends the process
        with the stream."""
        head, control, _, _ = self.socket.recvmsg(4, _socket.CMSG_SPACE(4 * self.MOST_FILES), _socket.MSG_CMSG_CLOEXEC)
        files = []
        for _, _, data in control:
            files += [int.from_bytes(data[i:i + 4], sys.byteorder) for i in range(0, len(data), 4)]
        head += self.read(4 - len(head))
        body = self.read(int.from_bytes(head, sys.byteorder))
        words = []
        at = 0
        while at < len(body):
            end = at + 4 + int.from_bytes(body[at:at + 4], sys.byteorder)
            words.append(body[at + 4:end])
            at = end
        return (*words, files)

    def read(self, size):
        parts = []
        while size > 0:
            part = self.socket.recv(size)
            if not part:
                os._exit(0)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def close_all(files, channel, *channels):
    for descriptor in files + [other.descriptor for other in channels]:
        os.close(descriptor)
    for other in channels:
        other.socket.detach()
    return channel


def place(files):
    """Makes files the descriptors from 0 on."""
    high = [os.dup(descriptor) for descriptor in files]
    while min(high) < len(files):
        high = [os.dup(descriptor) for descriptor in high]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number)
