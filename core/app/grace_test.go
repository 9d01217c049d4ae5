package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestANodeThatStopsLingersForItsGrace(t *testing.T) {
	for _, grace := range []time.Duration{0, 20 * time.Second} {
		cfg := settings(t, func(c *config.Config) { c.Store.UnmountGrace = grace })
		role := Store(cfg, builtins())
		require.Equal(t, StopTimeout+grace, fx.New(base(quiet), role, fx.Supply(Failer(func(error) {}))).StopTimeout())
	}
}
