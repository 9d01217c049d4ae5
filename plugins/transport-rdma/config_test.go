package rdma

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestValidate(t *testing.T) {
	require.NoError(t, plugin.Validate(DefaultConfig()))
	for want, spoil := range map[string]func(*Config){
		"ib_port":               func(c *Config) { c.IBPort = 0 },
		"gid_index":             func(c *Config) { c.GIDIndex = -2 },
		"mtu":                   func(c *Config) { c.MTU = 1500 },
		"traffic_class":         func(c *Config) { c.TrafficClass = 256 },
		"service_level":         func(c *Config) { c.ServiceLevel = 16 },
		"qp_per_endpoint":       func(c *Config) { c.QPPerEndpoint = 256 },
		"max_wr":                func(c *Config) { c.MaxWR = 0 },
		"cq_depth is 256":       func(c *Config) { c.CQDepth = 256 },
		"endpoint_store":        func(c *Config) { c.EndpointStore = "SIEVE" },
		"gpu_memory":            func(c *Config) { c.GPUMemory = "yes" },
		"relaxed_ordering":      func(c *Config) { c.RelaxedOrdering = 3 },
		"max_mr_size":           func(c *Config) { c.MaxMRSize = 1 },
		"spin":                  func(c *Config) { c.Spin = plugin.Duration(time.Second) },
		"op_timeout":            func(c *Config) { c.OpTimeout = 0 },
		"ack_timeout":           func(c *Config) { c.AckTimeout = 0 }, // 0 would wait forever.
		"retry_count":           func(c *Config) { c.RetryCount = 8 },
		"port_max":              func(c *Config) { c.PortMax = 10 },
		"devices":               func(c *Config) { c.Devices = []string{"a@b"} },
		`devices names "x"`:     func(c *Config) { c.Devices = []string{"x", "x"} },
		"server_name":           func(c *Config) { c.ServerName = "a@b" },
		"advertise":             func(c *Config) { c.Advertise = []string{"h:0"} },
		"advertise has":         func(c *Config) { c.Advertise = make([]string, 9) },
		"slice_bytes":           func(c *Config) { c.SliceBytes = 1 },
		"max_inflight_ops":      func(c *Config) { c.MaxInflightOps = 0 },
		"parallel_registration": func(c *Config) { c.ParallelRegistration = 2 },
	} {
		c := DefaultConfig()
		spoil(c)
		require.ErrorContains(t, plugin.Validate(c), want)
	}
}
