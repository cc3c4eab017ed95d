"""A system call filter for sandboxes: what namespaces do not shut off.

Sockets of other families than local, IP and netlink are refused (a virtual machine's ``AF_VSOCK`` reaches its host,
whatever the network namespace), and so are the kernel's keys, which can hold credentials of the session, and io_uring,
whose operations pass by every filter. Programs of another architecture than the machine's cannot run, nor can those of
32 bits.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from dataclasses import dataclass

# From <linux/filter.h> and <linux/seccomp.h>.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # in struct seccomp_data; low word of a 64-bit argument
_X32 = 0x40000000  # numbers of another calling convention of x86-64

_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)  # the last is AF_NETLINK, Linux only


@dataclass(frozen=True)
class _Machine:
    """Numbers of an architecture: its own, of socket(2), and of the calls that are refused whole."""

    audit: int
    socket: int
    refused: tuple[int, ...]  # add_key, request_key, keyctl, io_uring_setup


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, (248, 249, 250, 425)),
    "aarch64": _Machine(0xC00000B7, 198, (217, 218, 219, 425)),
}


def socket_filter(machine: str = platform.machine()) -> bytes | None:
    """The filter as BPF instructions; None for an architecture whose numbers are not known here."""
    numbers = _MACHINES.get(machine)
    if numbers is None:
        return None
    program: list[tuple[int, str, str, int]] = [
        (_LOAD, "", "", _ARCHITECTURE_AT),
        (_IF_EQUAL, "", "missing", numbers.audit),
        (_LOAD, "", "", _NUMBER_AT),
        (_IF_AT_LEAST, "missing", "", _X32),
        *((_IF_EQUAL, "missing", "", number) for number in numbers.refused),
        (_IF_EQUAL, "", "allow", numbers.socket),
        (_LOAD, "", "", _FIRST_ARGUMENT_AT),
        *((_IF_EQUAL, "allow", "", int(family)) for family in _FAMILIES),
        (_RETURN, "", "", _ERRNO | errno.EAFNOSUPPORT),
    ]
    places = {"allow": len(program), "missing": len(program) + 1}
    program += [(_RETURN, "", "", _ALLOW), (_RETURN, "", "", _ERRNO | errno.ENOSYS)]

    def skip(target: str, at: int) -> int:
        return places[target] - at - 1 if target else 0

    return b"".join(
        struct.pack("=HBBI", code, skip(yes, at), skip(no, at), value)
        for at, (code, yes, no, value) in enumerate(program)
    )
