"""The groups of cases that probe.py runs."""

from __future__ import annotations

import cases_engine
import cases_full
import cases_keys
import cases_memory
import cases_segments
import cases_states

GROUPS = {
    "keys": cases_keys.run,
    "memory": cases_memory.run,
    "ranges": cases_memory.run_ranges,
    "sessions": cases_memory.run_sessions,
    "segments": cases_segments.run,
    "tasks": cases_segments.run_tasks,
    "large": cases_full.run_large,
    "full": cases_full.run_full,
    "unset": cases_states.run_unset,
    "closed": cases_states.run_closed,
    "dead": cases_states.run_dead,
    "setup": cases_states.run_setup,
    "engine": cases_engine.run,
    "engine unset": cases_engine.run_unset,
    "engine addresses": cases_engine.run_addresses,
}
