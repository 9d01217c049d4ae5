package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// storeBeside starts one more store and returns it with the name of its segment.
func (p *pool) storeBeside(t *testing.T) (*cluster.Proc, string) {
	t.Helper()
	before := p.segments(t)
	p.startStore(t)
	p.waitMounted(t, len(before)+1)
	after := slices.DeleteFunc(p.segments(t), func(name string) bool { return slices.Contains(before, name) })
	require.Len(t, after, 1)
	return p.stores[len(p.stores)-1], after[0]
}

func (p *pool) segments(t *testing.T) []string {
	t.Helper()
	text, err := p.get(t, "/get_all_segments")
	require.NoError(t, err)
	return strings.Fields(text)
}

// TestDrainsAndCopies: what a drained store had is read when the store is gone, and so is an object with two copies when the store
// of one is. A copy that was lost is made again, and read when it is the last one. All of it in plaintext and with certificates.
func TestDrainsAndCopies(t *testing.T) {
	for _, mode := range []string{"off", "mtls"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := startPoolIn(t, mode, 0, killable...)
			a, drained := p.storeBeside(t)
			b, _ := p.storeBeside(t)
			c, _ := p.storeBeside(t)
			value := func(key string) string { return strings.Repeat(key+"\n", 20_000) }
			keys := []string{}
			for i := range 6 {
				keys = append(keys, fmt.Sprint("key-", i))
				r := p.client(t, value(keys[i]), "put", keys[i], "--replicas", fmt.Sprint(1+i%2), "--transports", "tcp")
				require.Equal(t, 0, r.Code, r.Stderr)
			}
			read := func(keys ...string) {
				t.Helper()
				for _, key := range keys {
					r := p.client(t, "", "get", key, "--transports", "tcp")
					require.Equal(t, 0, r.Code, "%s: %s", key, r.Stderr)
					require.True(t, r.Stdout == value(key), "%s has wrong bytes", key)
				}
			}
			r := p.operate(t, "drain", "start", drained, "--wait")
			require.Equal(t, 0, r.Code, r.Stderr)
			a.Kill()
			p.waitMounted(t, 2)
			read(keys...)

			b.Kill()
			p.waitMounted(t, 1)
			read(keys[1], keys[3], keys[5])

			_, name := p.storeBeside(t)
			r = p.operate(t, "tasks", "copy", keys[1], "--to", name)
			require.Equal(t, 0, r.Code, r.Stderr)
			task := strings.TrimSuffix(strings.Fields(r.Stdout)[1], ";")
			require.NoError(t, cluster.Poll(c, time.Minute, func() error {
				if r = p.operate(t, "tasks", "status", task); !strings.Contains(r.Stdout, "SUCCESS") {
					return errors.New(r.Stdout + r.Stderr)
				}
				return nil
			}))
			c.Kill()
			p.waitMounted(t, 1)
			read(keys[1])
		})
	}
}
