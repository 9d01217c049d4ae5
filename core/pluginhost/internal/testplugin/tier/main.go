// Command tier is a plugin for the tests of package pluginhost: a storage tier in memory that hangs
// on command.
package main

import (
	"context"
	_ "embed"
	"errors"
	"os"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/serve"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

//go:generate go run . --manifest manifest.json
//go:embed manifest.json
var manifest string

type config struct {
	// Lock is a file that exists while the tier runs: it does not start a second time.
	Lock string `json:"lock"`
}

func (*config) Validate() error { return nil }

func main() {
	inner := reference.Factory()
	serve.Main(tier.Define(plugin.MustParseManifest(manifest), func() *config { return &config{} }, func(c *config) (tier.Tier, error) {
		t, err := inner.New(inner.DefaultConfig())
		return &faulty{Tier: t, lock: c.Lock}, err
	}))
}

type faulty struct {
	tier.Tier
	lock string
}

// Start implements plugin.Component.
func (f *faulty) Start(ctx context.Context, host plugin.Host) error {
	if f.lock != "" {
		file, err := os.OpenFile(f.lock, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return errors.New("another process runs")
		}
		_ = file.Close()
	}
	return f.Tier.Start(ctx, host)
}

// Stop implements plugin.Component.
func (f *faulty) Stop(ctx context.Context) error {
	err := f.Tier.Stop(ctx)
	if f.lock != "" {
		_ = os.Remove(f.lock)
	}
	return err
}

// Submit implements tier.Tier. An operation on the key "hang" never completes.
func (f *faulty) Submit(ops []tier.Op) (int, error) {
	for i := range ops {
		if string(ops[i].Record.Key) == "hang" {
			continue
		}
		if n, err := f.Tier.Submit(ops[i : i+1]); n == 0 {
			return i, err
		}
	}
	return len(ops), nil
}
