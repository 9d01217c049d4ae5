package app

import (
	"bytes"
	"log/slog"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestLimitGo(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "")
	root := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/a\n")}, "sys/fs/cgroup/a/memory.max": {Data: []byte("10737418240\n")}} // 10 GiB
	node := config.Store{GlobalSegmentSize: 4 * config.GiB, LocalBufferSize: 512 * config.MiB, MmapArenaPoolSize: config.GiB}
	for _, c := range []struct {
		name   string
		role   config.Role
		change func(*config.Config)
		want   string
	}{
		{"a master contributes nothing", config.RoleMaster, func(*config.Config) {}, `limit="9 GiB"`},
		{"a store its segments and its arena", config.RoleService, func(*config.Config) {}, `limit="4 GiB"`},
		{"a served client without arena", config.RoleStore, func(c *config.Config) { c.Store.DisableMmapArena = true }, `limit="4.5 GiB"`},
		{"huge pages lie elsewhere", config.RoleService, func(c *config.Config) { c.Store.UseHugepage = true }, `limit="9 GiB"`},
		{"more than there is", config.RoleService, func(c *config.Config) { c.Store.GlobalSegmentSize = 9 * config.GiB }, "the control group leaves too little"},
		{"a fixed size", config.RoleService, func(c *config.Config) { c.Memory.GoLimit = "3GiB" }, `limit="3 GiB" from=memory.go_limit`},
		{"off", config.RoleMaster, func(c *config.Config) { c.Memory.GoLimit = "off" }, "is not limited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config.Config{Store: node, Memory: config.Memory{GoLimit: "auto"}}
			c.change(&cfg)
			var out bytes.Buffer
			LimitGo(root, cfg, c.role, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
			require.Contains(t, out.String(), c.want)
		})
	}
}
