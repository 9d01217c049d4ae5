package etcd

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// bridge returns a logger for the library that writes to log at the level debug: what
// matters comes back to the caller as an error.
func bridge(log *slog.Logger) *zap.Logger { return zap.New(&core{log: log}) }

type core struct{ log *slog.Logger }

func (c *core) Enabled(zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slog.LevelDebug)
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log.With(attributes(fields)...)}
}

func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.log.Debug("etcd: "+e.Message, attributes(fields)...)
	return nil
}

func (c *core) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	values := zapcore.NewMapObjectEncoder()
	out := make([]any, 0, len(fields))
	for _, f := range fields {
		f.AddTo(values)
		out = append(out, slog.Any(f.Key, values.Fields[f.Key]))
	}
	return out
}
