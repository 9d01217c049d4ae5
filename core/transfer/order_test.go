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
	e := &Engine{cfg: DefaultConfig(), peers: map[string]*peer{}}
	p, err := e.peer("x")
	require.NoError(t, err)
	p.mu.Lock()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		_, err := e.peer("x")
		assert.NoError(t, err)
	}()
	for e.mu.TryLock() { // until it holds the table and waits for the peer
		e.mu.Unlock()
		runtime.Gosched()
	}
	require.True(t, e.spawn(func() {}))
	require.True(t, e.begin())
	p.mu.Unlock()
	<-looked
	e.tasks.wg.Wait()
}
