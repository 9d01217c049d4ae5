package transfer

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever looks a peer up waits for the peer while it holds the table of peers. Who holds
// the peer must not need the table to begin a connect or a transfer: neither would go on,
// and with them every transfer of the process.
func TestConnectingDoesNotNeedTheTableOfPeers(t *testing.T) {
	cfg := DefaultConfig()
	life := newLifetime()
	table := newPeers(&peerEnv{pathEnv: &pathEnv{cfg: &cfg, life: life}})
	p, err := table.get("x")
	require.NoError(t, err)
	p.mu.Lock()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		_, err := table.get("x")
		assert.NoError(t, err)
	}()
	for table.mu.TryLock() { // until it holds the table and waits for the peer
		table.mu.Unlock()
		runtime.Gosched()
	}
	require.True(t, life.spawn(func() {}))
	require.True(t, life.begin())
	p.mu.Unlock()
	<-looked
	require.NoError(t, life.tasks.wait(t.Context()))
}
