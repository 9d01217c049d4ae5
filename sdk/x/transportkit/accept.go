package transportkit

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// acceptPause is the wait after a failed accept, as when the process has no descriptors left.
const acceptPause = 20 * time.Millisecond

// Accept hands connections to handle until the listener is closed. It logs the first of a run of
// failures and tries again after a pause.
func Accept[C any](accept func() (C, error), log *slog.Logger, handle func(C)) {
	for failing := false; ; {
		c, err := accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			failing = false
			handle(c)
			continue
		case !failing:
			log.Warn("cannot accept connections; trying on", "error", err)
			failing = true
		}
		time.Sleep(acceptPause)
	}
}
