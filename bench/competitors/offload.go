package competitors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// offloadFlags have a master let clients keep objects on disks. A client that asks where objects are protects them for a
// while; it is short, so that the saved ones can be evicted.
var offloadFlags = []string{"--metrics_host=127.0.0.1", "--enable_offload=true", "--default_kv_lease_ttl=100"}

// offloadSize is how much a client keeps on a disk.
const offloadSize = 8 << 30

// OursOffloading starts a master and two clients in Python, of which the first one contributes segment bytes and keeps
// objects in a new folder below folder. It returns the second one.
func (s *Scope) OursOffloading(ctx context.Context, folder string, segment int) (*Driver, error) {
	m, err := s.master(ctx, "master", -1, filepath.Join(s.env.Programs, "mooncake_master"), offloadFlags...)
	if err != nil {
		return nil, err
	}
	env := append(TCP.environ(), "PYTHONPATH="+filepath.Join(s.env.Root, "sdk", "python"))
	return s.offloading(ctx, m, folder, segment, env)
}

// UpstreamOffloading is OursOffloading for the wheel: with its usual backend, io_uring, the shortest time between two of its
// rounds of saving, and buckets of few objects, since it does not save what fills no bucket in a round.
func (s *Scope) UpstreamOffloading(ctx context.Context, folder string, segment int) (*Driver, error) {
	if why := s.env.upstreamReason(); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoUpstream, why)
	}
	m, err := s.master(ctx, "upstream's master", -1, s.env.upstreamFile("mooncake_master"), offloadFlags...)
	if err != nil {
		return nil, err
	}
	return s.offloading(ctx, m, folder, segment, []string{
		"MOONCAKE_OFFLOAD_STORAGE_BACKEND_DESCRIPTOR=bucket_storage_backend", "MOONCAKE_OFFLOAD_USE_URING=1",
		"MOONCAKE_OFFLOAD_HEARTBEAT_INTERVAL_SECONDS=1", "MOONCAKE_OFFLOAD_BUCKET_KEYS_LIMIT=16",
	})
}

func (s *Scope) offloading(ctx context.Context, m *Master, folder string, segment int, env []string) (*Driver, error) {
	dir, err := os.MkdirTemp(folder, "offload-")
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() { os.RemoveAll(dir) })
	env = append(env, fmt.Sprintf("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES=%d", offloadSize))
	if _, err := s.python(ctx, "client with a disk", m, -1, segment, env, "--ssd", dir); err != nil {
		return nil, err
	}
	return s.python(ctx, "client of the disk", m, -1, 0, env)
}
