"""Images and bytes of images. Private. Loads Pillow only where an image is made."""

from __future__ import annotations

from typing import Any


def is_bytes(value: Any) -> bool:
    """Whether value is bytes, bytearray or memoryview."""
    return isinstance(value, (bytes, bytearray, memoryview))


def is_media(value: Any) -> bool:
    """Whether value is an image of Pillow. Loads no Pillow."""
    return any(c.__module__ == "PIL.Image" and c.__name__ == "Image" for c in type(value).__mro__)


def encode_media(value: Any) -> tuple[bytes, dict[str, Any]]:
    """The bytes of an image or of bytes, and how to read them."""
    if is_media(value):
        how = {"kind": "pil_raw", "mode": value.mode, "size": list(value.size), "format": value.format}
        if value.mode == "P":
            how["palette"] = value.getpalette()
        return value.tobytes(), how
    if not is_bytes(value):
        raise TypeError(f"media must be an image of Pillow or bytes, got {type(value).__name__}")
    return bytes(value), {"kind": "bytes"}


def decode_media(data: bytes, how: dict[str, Any] | None) -> Any:
    """What encode_media was given."""
    if how is None or how["kind"] == "bytes":
        return data
    if how["kind"] != "pil_raw":
        raise ValueError(f"media of kind {how['kind']!r} cannot be read by this version")
    from PIL import Image

    image = Image.frombytes(how["mode"], tuple(how["size"]), data)
    if how.get("palette"):
        image.putpalette(how["palette"])
    return image
