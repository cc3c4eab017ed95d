"""Whether a file is a picture, by its size and first bytes: cheap enough for the screenshots of a whole data root."""

from __future__ import annotations

from pathlib import Path

KINDS = "a PNG, JPEG, WebP or GIF picture"

_HEAD = 24  # up to the size of a PNG, behind its signature and the length and name of its first chunk
_PNG, _PNG_CHUNK = b"\x89PNG\r\n\x1a\n", b"IHDR"
_JPEG = b"\xff\xd8\xff"
_GIF = (b"GIF87a", b"GIF89a")
_WEBP, _WEBP_KIND = b"RIFF", b"WEBP"


def image_fault(path: Path) -> str | None:
    """What a file is in place of a picture, to be read behind "which"; None when it begins as a picture does.

    Only its first 24 bytes are read: a picture that is damaged further on is not found out.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not head:
        return "is empty"
    if len(head) < _HEAD:  # the smallest picture of any kind is larger
        return f"holds {len(head)} bytes, {head[:8]!r} at first"
    return None if _is_picture(head) else f"begins with {head[:8]!r}"


def _is_picture(head: bytes) -> bool:
    if head.startswith(_PNG):
        return head[12:16] == _PNG_CHUNK
    return head.startswith((_JPEG, *_GIF)) or (head.startswith(_WEBP) and head[8:12] == _WEBP_KIND)
