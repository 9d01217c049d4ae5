package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/redisserver"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// TestMetadataServices runs a pool whose nodes find each other in a real etcd or redis. A killed
// store leaves its descriptor behind, and the master removes it.
func TestMetadataServices(t *testing.T) {
	programs.Long(t)
	for name, serve := range map[string]func(testing.TB) string{
		"etcd":  func(t testing.TB) string { return "etcd://" + etcdserver.New(t).Address },
		"redis": func(t testing.TB) string { return "redis://" + redisserver.New(t).Address },
	} {
		t.Run(name, func(t *testing.T) {
			meta := serve(t)
			ports, err := cluster.FreePorts(2)
			require.NoError(t, err)
			p := &pool{rpc: fmt.Sprintf("127.0.0.1:%d", ports[0]), admin: fmt.Sprintf("127.0.0.1:%d", ports[1]), meta: meta}
			p.masterArgs = []string{
				"master", "--rpc_address", "127.0.0.1", "--rpc_port", fmt.Sprint(ports[0]), "--metrics_host", "127.0.0.1", "--metrics_port", fmt.Sprint(ports[1]),
				"--client_ttl", "5s", "--enable_metadata_cleanup_on_timeout", "--set", "store.metadata_server=" + meta,
			}
			p.startMaster(t)
			store := func() *cluster.Proc {
				return start(t, "store", "mooncake", "store", "--master_server_address", p.rpc, "--metadata_server", meta,
					"--local_hostname", "127.0.0.1", "--global_segment_size", "32MiB")
			}
			first := store()
			p.waitMounted(t, 1)
			p.mustPutGet(t, "k")

			first.Kill()
			p.waitMounted(t, 0)
			require.NoError(t, cluster.Poll(p.master, 30*time.Second, func() error {
				if !strings.Contains(p.master.Tail(), "metadata of silent nodes removed") {
					return errors.New("nothing is removed yet")
				}
				return nil
			}))
			store()
			p.waitMounted(t, 1)
			assert.Equal(t, 3, p.client(t, "", "get", "k").Code, "what the dead store held is gone")
			p.mustPutGet(t, "k2")
		})
	}
}
