package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noRDMA skips the test on a machine that has RDMA.
func noRDMA(t *testing.T) {
	if devices, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(devices) > 0 {
		t.Skip("this machine has RDMA devices")
	}
}

// TestRDMAGivesWayToTCP checks that protocol rdma on a machine without RDMA moves bytes over TCP,
// and says so.
func TestRDMAGivesWayToTCP(t *testing.T) {
	noRDMA(t)
	p := startPool(t, 1)
	r := p.client(t, "over what there is", "put", "k", "--protocol", "rdma")
	require.Zero(t, r.Code, r.Stderr)
	assert.Contains(t, r.Stderr, "a transport is left out")
	assert.Contains(t, r.Stderr, "transport=rdma")
	assert.Contains(t, r.Stderr, "instead=tcp")
	r = p.client(t, "", "get", "k")
	require.Zero(t, r.Code, r.Stderr)
	assert.Equal(t, "over what there is", r.Stdout)
}

// TestRequiredRDMAIsRefused checks that nothing moves over another transport with required: true,
// and that the error says why and what to do.
func TestRequiredRDMAIsRefused(t *testing.T) {
	noRDMA(t)
	p := startPool(t, 1)
	file := filepath.Join(t.TempDir(), "required.yaml")
	require.NoError(t, os.WriteFile(file, []byte("store:\n  protocol: rdma\nplugins:\n  transport:\n    rdma:\n      required: true\n"), 0o600))
	r := p.client(t, "x", "put", "k", "--config", file)
	assert.NotZero(t, r.Code)
	assert.Contains(t, r.Stderr, "transport/rdma")
	assert.Regexp(t, "libibverbs|/sys/class/infiniband", r.Stderr)
	r = p.client(t, "", "put", "k", "--value", "x", "--transports", "rdma")
	assert.NotZero(t, r.Code, "no other transport is allowed")
	assert.Contains(t, r.Stderr, "no transport is left")
}
