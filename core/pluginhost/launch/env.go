package launch

import (
	"context"
	"log/slog"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/wire"
)

// passed are the variables of the host that every plugin process gets.
var passed = []string{
	"PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL",
	"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GOTRACEBACK", "GODEBUG",
}

// environment lists the variables of a child: the allow-list, those that the options add, its
// name, and the level of its log.
func environment(ctx context.Context, o Options) []string {
	var out []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(passed), o.Env...)))) {
		if v, ok := o.lookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return append(out, wire.PathEnv+"="+o.Name, wire.LogLevelEnv+"="+logLevel(ctx, o.Logger))
}

func logLevel(ctx context.Context, l *slog.Logger) string {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if l.Enabled(ctx, level) {
			return level.String()
		}
	}
	return slog.LevelError.String()
}
