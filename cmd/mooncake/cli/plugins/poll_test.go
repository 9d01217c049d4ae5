package plugins

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// TestTheEndOfARunIsNoSilence: a call that --for interrupts is no call without an answer, although the plugin's side may see
// a deadline of the call before this side does.
func TestTheEndOfARunIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		catalog, err := pluginhost.New(nil, pluginhost.Options{})
		require.NoError(t, err)
		var log bytes.Buffer
		tr := &trial{id: plugin.ID{Kind: "evict", Name: "x"}, catalog: catalog, log: slog.New(slog.NewTextHandler(&log, nil)), changed: make(chan struct{}, 1)}
		asked := 0
		tr.poll(t.Context(), 1500*time.Millisecond, func(ctx context.Context) error {
			asked++
			if end, ok := ctx.Deadline(); ok {
				time.Sleep(time.Until(end) - time.Microsecond)
				t.Error("the call has a deadline that the plugin sees")
			} else {
				<-ctx.Done()
			}
			return errs.New(errs.RPCTimeout, "", "too late")
		})
		assert.Equal(t, 1, asked)
		assert.NotContains(t, log.String(), "does not answer")
	})
}
