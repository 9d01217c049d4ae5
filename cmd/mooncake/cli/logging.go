package cli

import (
	"log/slog"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/observe"
)

// logger makes the logger of a role: to a file where log.dir names a directory, to
// standard error where there is none, and to both where log.stderr says so. The file gets
// every line; standard error then gets the errors. The file stays open until run ends.
func (e *env) logger(l *config.Loaded, role config.Role) (*slog.Logger, error) {
	c, level := l.Config.Log, logLevel(l, role)
	if c.Dir == "" || c.Stderr == "only" {
		log, err := observe.NewLogger(e.stderr, level, c.Format)
		return log, usage(err)
	}
	journal, err := observe.OpenJournal(observe.JournalOptions{Dir: c.Dir, Program: role.Program(), MaxSize: int64(c.MaxSize), Keep: c.Keep})
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, journal)
	file, err := observe.NewLogger(journal, level, c.Format)
	if err != nil {
		return nil, usage(err)
	}
	if c.Stderr != "also" {
		level = "error"
	}
	screen, err := observe.NewLogger(e.stderr, level, c.Format)
	if err != nil {
		return nil, usage(err)
	}
	return slog.New(slog.NewMultiHandler(file.Handler(), screen.Handler())), nil
}

// logLevel is the configured level. A client command is over in a moment and its user
// wants its result: without a level of their own they get warnings and errors only.
func logLevel(l *config.Loaded, role config.Role) string {
	for _, entry := range l.Entries() {
		if entry.Key == "log.level" && entry.Origin.Layer == config.LayerDefault && role == config.RoleClient {
			return "warn"
		}
	}
	return l.Config.Log.Level
}
