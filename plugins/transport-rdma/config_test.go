package rdma

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestValidate(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
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
		require.ErrorContains(t, c.Validate(), want)
	}
}

// TestSchema: the manifest tells each setting, with the default and the bounds that it has.
func TestSchema(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Default any   `json:"default"`
			Minimum *int  `json:"minimum"`
			Maximum *int  `json:"maximum"`
			Enum    []any `json:"enum"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(manifest().ConfigSchema, &schema))
	text, err := json.Marshal(DefaultConfig())
	require.NoError(t, err)
	var defaults map[string]any
	require.NoError(t, json.Unmarshal(text, &defaults))
	typ := reflect.TypeFor[Config]()
	fields := slices.DeleteFunc(reflect.VisibleFields(typ), func(f reflect.StructField) bool { return f.Anonymous })
	require.Len(t, schema.Properties, len(fields))
	for _, f := range fields {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := schema.Properties[name]
		require.True(t, ok, name)
		require.Equal(t, defaults[name], p.Default, name)
		tag := f.Tag
		if p.Minimum != nil && !strings.HasPrefix(name, "port") { // Those are of transportkit.
			require.Equal(t, tag.Get("range"), fmt.Sprintf("%d to %d", *p.Minimum, *p.Maximum), name)
		}
		if p.Enum != nil {
			require.Equal(t, tag.Get("oneof"), strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Enum), " ", ", "), "[]"), name)
		}
	}
}
