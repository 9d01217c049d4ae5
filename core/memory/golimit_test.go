package memory

import (
	"bytes"
	"log/slog"
	"math"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const gib = 1 << 30

// limitedGroup is a machine whose control group has a limit, in one of both versions; 0 is none.
func limitedGroup(two bool, limit uint64) fstest.MapFS {
	text := []byte(strconv.FormatUint(limit, 10) + "\n")
	if two {
		if limit == 0 {
			text = []byte("max\n")
		}
		return fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/pod/c\n")}, "sys/fs/cgroup/pod/memory.max": {Data: text}}
	}
	if limit == 0 {
		text = []byte("9223372036854771712\n")
	}
	return fstest.MapFS{"proc/self/cgroup": {Data: []byte("4:memory:/pod\n")}, "sys/fs/cgroup/memory/pod/memory.limit_in_bytes": {Data: text}}
}

func TestGoLimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   GoLimit
		group   uint64
		environ string
		want    uint64
		log     string
	}{
		{"no group", GoLimit{}, 0, "", 0, "no control group limits this process"},
		{"a tenth stays free", GoLimit{}, 10 * gib, "", 9 * gib, `limit="9 GiB" from="the control group" cgroup="10 GiB" outside="0 B"`},
		{"and what lies outside", GoLimit{Outside: 8 * gib}, 10 * gib, "", 1 * gib, `outside="8 GiB"`},
		{"just enough", GoLimit{Outside: 9*gib - goLeast}, 10 * gib, "", goLeast, `limit="64 MiB"`},
		{"too little", GoLimit{Outside: 9*gib - goLeast + 1}, 10 * gib, "", 0, "raise the limit of the container"},
		{"less than nothing", GoLimit{Outside: 11 * gib}, 10 * gib, "", 0, `needed="12.1 GiB"`},
		{"GOMEMLIMIT goes first", GoLimit{}, 10 * gib, "1GiB", 0, "because=GOMEMLIMIT"},
		{"a setting before it", GoLimit{Fixed: gib, Outside: gib}, 10 * gib, "2GiB", gib, `limit="1 GiB" from=memory.go_limit`},
		{"a setting without a group", GoLimit{Fixed: gib}, 0, "", gib, "cgroup=none"},
		{"off", GoLimit{Off: true}, 10 * gib, "", 0, "because=memory.go_limit"},
	} {
		for _, two := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				before := debug.SetMemoryLimit(math.MaxInt64 - 1)
				defer debug.SetMemoryLimit(before)
				t.Setenv("GOMEMLIMIT", c.environ)
				var out bytes.Buffer
				log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
				require.Equal(t, c.want, c.limit.Apply(limitedGroup(two, c.group), log))
				require.Contains(t, out.String(), c.log)
				want := int64(math.MaxInt64 - 1)
				if c.want > 0 {
					want = int64(c.want)
				}
				require.Equal(t, want, debug.SetMemoryLimit(-1), "what the runtime has")
			})
		}
	}
}
