package open_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
)

// What a dead node published goes, and nothing else: in the embedded service, and in one
// that is reached by HTTP.
func TestCleanerTakesBackWhatDeadNodesPublished(t *testing.T) {
	for name, cluster := range map[string]string{"no cluster": "", "cluster": "blue"} {
		t.Run(name, func(t *testing.T) {
			keys, others := metadata.Keys{Cluster: cluster}, metadata.Keys{Cluster: cluster + "x"}
			for _, embedded := range []bool{true, false} {
				store := memory.New(memory.Limits{})
				for _, k := range []string{keys.Segment("dead:1"), keys.RPCMeta("dead:1"), keys.Segment("alive:1"), keys.RPCMeta("alive:1"), others.Segment("dead:1")} {
					require.NoError(t, store.Put(t.Context(), k, []byte("{}")))
				}
				s := config.Store{MetadataClusterID: cluster, MetadataServer: "P2PHANDSHAKE"}
				in := store
				if !embedded {
					in = nil
					server := httptest.NewServer(http.NewHandler(store, nil))
					defer server.Close()
					s.MetadataServer = server.URL + "/metadata"
				}
				c, err := open.NewCleaner(in, s, nil, slog.New(slog.DiscardHandler))
				require.NoError(t, err)
				c.Remove(t.Context(), []string{"never:1", "dead:1"})
				c.Close()
				require.Equal(t, 3, store.Len())
				_, err = store.Get(t.Context(), keys.RPCMeta("dead:1"))
				require.ErrorIs(t, err, metadata.ErrNotFound)
				_, err = store.Get(t.Context(), others.Segment("dead:1"))
				require.NoError(t, err)
			}
		})
	}
}

func TestCleanerWithoutAService(t *testing.T) {
	out := &bytes.Buffer{}
	log := slog.New(slog.NewTextHandler(out, nil))
	c, err := open.NewCleaner(nil, config.Store{MetadataServer: "P2PHANDSHAKE"}, nil, log)
	require.NoError(t, err)
	require.Contains(t, out.String(), "there is no metadata service")
	c.Remove(t.Context(), []string{"a"})

	gone := httptest.NewServer(nil)
	gone.Close()
	c, err = open.NewCleaner(nil, config.Store{MetadataServer: gone.URL + "/metadata"}, nil, log)
	require.NoError(t, err)
	c.Remove(t.Context(), []string{"a", "b", "c"})
	require.Equal(t, 1, strings.Count(out.String(), "metadata of silent nodes stays"), "it stops at the first failure")
	c.Close()
	_, err = open.NewCleaner(nil, config.Store{MetadataServer: "http://"}, nil, log)
	require.Error(t, err)
}
