"""Tensors between the store and files of the safetensors package, which is imported by the calls."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .io import key_text, refused

if TYPE_CHECKING:
    from torch import Tensor

_FILE_NOT_FOUND = -1100
_REQUIRED: Any = object()


class SafetensorMethods:
    """save_tensor_to_safetensor and load_tensor_from_safetensor."""

    if TYPE_CHECKING:

        def get_tensor(self, key: str) -> Tensor | None: ...
        def put_tensor(self, key: str, tensor: Tensor) -> int: ...

    def save_tensor_to_safetensor(self, key: str, file_name: str | None = None) -> int:
        """save_tensor_to_safetensor(key: str, file_name: str = None) -> int

        Writes the tensor of key to a file, under the name key; the file is called key where
        file_name is None. -1100 where the store has no such tensor.
        """
        key = key_text(key)
        path = key if file_name is None else _path(file_name)
        tensor = self.get_tensor(key)
        if tensor is None:
            return _FILE_NOT_FOUND
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        try:
            save_file({key: tensor}, path)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as e:
            return refused(f"save of tensor {key!r} to {path}", e)
        return 0

    def load_tensor_from_safetensor(self, key: str | None = None, file_name: str = _REQUIRED) -> Tensor | None:
        """load_tensor_from_safetensor(key: str = None, file_name: str) -> torch.Tensor | None

        Reads the tensor key of a file, or its first one where there is none of that name, and
        stores it under key; under file_name where key is None. None when it cannot be read or stored.
        """
        if file_name is _REQUIRED:
            raise TypeError("load_tensor_from_safetensor() needs file_name")
        path = _path(file_name)
        name = path if key is None else key_text(key)
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            tensors = load_file(path)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as e:
            refused(f"load of {path}", e)
            return None
        if not tensors:
            refused(f"load of {path}", "there is no tensor in it")
            return None
        if name not in tensors and key is not None:
            refused(f"load of {path}", f"there is no tensor {name!r} in it; took the first one")
        tensor = tensors[name] if name in tensors else next(iter(tensors.values()))
        code = self.put_tensor(name, tensor)
        if code != 0:
            refused(f"load of {path}", f"the store did not take it: {code}")
            return None
        return tensor


def _path(file_name: Any) -> str:
    if not isinstance(file_name, (str, bytes, os.PathLike)):
        raise TypeError(f"file_name must be a str, not {type(file_name).__name__}")
    return os.fsdecode(file_name)
