"""Puts an object into the pool and reads it back, with the settings of the environment."""

import sys

from mooncake.mooncake_config import MooncakeConfig
from mooncake.store import MooncakeDistributedStore

config = MooncakeConfig.load_from_env()
store = MooncakeDistributedStore()
code = store.setup(
    config.local_hostname,
    config.metadata_server,
    0,  # a client only: no memory for the pool
    config.local_buffer_size,
    config.protocol,
    config.device_name,
    config.master_server_address,
)
if code != 0:
    sys.exit(f"setup failed with {code}; is the master at {config.master_server_address} up?")
if (code := store.put("greeting", b"hello from the pool")) != 0:
    sys.exit(f"put failed with {code}; is a store up?")
print(store.get("greeting").decode(), flush=True)
store.close()
