package command

import (
	"log/slog"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/observe"
)

// Logger makes the logger of a role. It logs to a file if log.dir names a folder, to standard
// error if it does not, and to both if log.stderr asks for that. The file gets every line;
// standard error then gets the errors only. Close closes the file.
func (e *Env) Logger(l *config.Loaded, role config.Role) (*slog.Logger, error) {
	c, level := l.Config.Log, logLevel(l, role)
	if c.Dir == "" || c.Stderr == "only" {
		log, err := observe.NewLogger(e.Stderr, level, c.Format)
		return log, Usage(err)
	}
	journal, err := observe.OpenJournal(observe.JournalOptions{Dir: c.Dir, Program: role.Program(), MaxSize: int64(c.MaxSize), Keep: c.Keep})
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, journal)
	file, err := observe.NewLogger(journal, level, c.Format)
	if err != nil {
		return nil, Usage(err)
	}
	if c.Stderr != "also" {
		level = "error"
	}
	screen, err := observe.NewLogger(e.Stderr, level, c.Format)
	if err != nil {
		return nil, Usage(err)
	}
	return slog.New(slog.NewMultiHandler(file.Handler(), screen.Handler())), nil
}

// logLevel returns the configured level. The default of client commands is warn, since they end
// in a moment and their users want the result.
func logLevel(l *config.Loaded, role config.Role) string {
	if o, ok := l.Origin("log.level"); ok && o.Layer == config.LayerDefault && role == config.RoleClient {
		return "warn"
	}
	return l.Config.Log.Level
}
