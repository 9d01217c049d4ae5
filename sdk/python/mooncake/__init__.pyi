from .buffer_pool import BufferPool as BufferPool
from .buffer_pool import RegisteredBufferPool as RegisteredBufferPool

__all__ = ["BufferPool", "RegisteredBufferPool"]
