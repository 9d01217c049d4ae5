package server

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/core/memory"
)

// quiet is how long connections that are closed for want of room are only counted after a line in
// the log.
const quiet = time.Minute

// logConnClosed returns what happens to connections that are closed because there are too many: a line in
// the log, at most one a minute, and a count.
func logConnClosed(o Options) func(framed.ConnClosed) {
	var mu sync.Mutex
	var told time.Time
	since := map[framed.CloseReason]int{}
	return func(c framed.ConnClosed) {
		if o.ConnClosed != nil {
			o.ConnClosed(string(c.Why))
		}
		mu.Lock()
		defer mu.Unlock()
		since[c.Why]++
		now := time.Now()
		if !told.IsZero() && now.Sub(told) < quiet {
			return
		}
		told = now
		text, do := "the master's RPC port has too many connections; idle ones give way to new ones",
			"raise --rpc_max_connections and the limit on open files (ulimit -n, LimitNOFILE=), or let hosts share clients"
		if c.Descriptors {
			text = "the master has no file descriptor left for a new connection; idle ones give way to new ones"
			do = "raise the limit on open files (ulimit -n, LimitNOFILE=)"
		}
		o.Logger.LogAttrs(context.Background(), slog.LevelWarn, text,
			slog.Int("connections", c.Open), slog.Int("most", c.Most), slog.Uint64("open_files_limit", openFiles()),
			slog.String("host", c.Host.String()), slog.Int("connections_of_host", c.OfHost),
			slog.Int("closed_idle", since[framed.ClosedIdle]), slog.Int("closed_half_open", since[framed.ClosedHalfOpen]),
			slog.Int("refused", since[framed.Refused]), slog.String("do", do))
		clear(since)
	}
}

// openFiles returns how many files this process may have open. The runtime has raised the limit to
// the hard one already.
func openFiles() uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return l.Cur
}

// reserved is how many descriptors connections to the RPC port leave to the rest of the process, at
// least an eighth of the limit, beside those that are open at the start.
const reserved = 16

// maxConnections returns how many connections the RPC port may have, given the setting.
func maxConnections(asked int, log *slog.Logger) int {
	limit := openFiles()
	if limit == 0 {
		return asked
	}
	used := uint64(reserved)
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		used += uint64(len(open))
	}
	used = max(used, limit/8)
	most := max(int(min(limit, 1<<30))-int(min(used, 1<<30)), 1)
	if asked == 0 {
		return most
	}
	if asked > most {
		log.Warn("rpc_max_connections is more than the limit on open files leaves", "rpc_max_connections", asked, "most", most,
			"open_files_limit", limit, "do", "raise the limit on open files (ulimit -n, LimitNOFILE=)")
	}
	return min(asked, most)
}

// memoryBudget returns the memory for large requests, given the setting. Without a setting it has
// room for the largest request at least.
func memoryBudget(asked uint64) int64 {
	if asked > 0 {
		return int64(asked)
	}
	l := memory.ReadLimits(nil)
	budget := uint64(DefaultMemoryBudget)
	for _, all := range []uint64{l.Physical, l.Cgroup} {
		if all > 0 {
			budget = min(budget, all/4)
		}
	}
	return int64(max(budget, perByte*rpc.MaxMessageSize))
}
