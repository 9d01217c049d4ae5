"""The eviction policy evict/python-lru: what was not used for longest goes first."""

from .policy import LRU, Config

__all__ = ["LRU", "Config"]
