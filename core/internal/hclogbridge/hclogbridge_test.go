package hclogbridge_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/core/internal/hclogbridge"
)

func TestRecordsArriveUnderTheCeiling(t *testing.T) {
	var out bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	l := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: drop}))
	h := hclogbridge.New(l, slog.LevelWarn)
	h.Named("sub").Error("too loud", "n", 1)
	h.With("fixed", "x").Info("told")
	h.Debug("detail", "odd")
	h.Trace("not wanted")
	assert.Equal(t, `level=WARN msg="too loud" logger=sub n=1
level=INFO msg=told fixed=x
level=DEBUG msg=detail
`, out.String())
}

func TestLevels(t *testing.T) {
	for from, want := range map[hclog.Level]slog.Level{
		hclog.Trace: -8, hclog.Debug: slog.LevelDebug, hclog.Info: slog.LevelInfo, hclog.Warn: slog.LevelWarn,
		hclog.Error: slog.LevelError, hclog.NoLevel: slog.LevelInfo,
	} {
		assert.Equal(t, want, hclogbridge.Level(from))
	}
}
