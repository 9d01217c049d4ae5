package upstream

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
)

// refusals writes the log of calls that were refused: one line a minute for each function and code.
type refusals struct {
	log    *slog.Logger
	called func(function uint32) string // names a function
	kinds  foreign.Seldom[kind]
}

type kind struct {
	function uint32
	code     uint16
}

func newRefusals(log *slog.Logger, called func(uint32) string) *refusals {
	return &refusals{log: log, called: called}
}

// tell notes a call that was refused.
func (r *refusals) tell(remote net.Addr, function uint32, why *Refused) {
	r.line(remote, kind{function, why.Code}, "a call of an upstream client was refused: "+why.Message)
}

// tooLarge notes a connection that is closed for a request that is too large.
func (r *refusals) tooLarge(remote net.Addr, function uint32, why error) {
	r.line(remote, kind{function, answerTooLarge}, "the connection of an upstream client is closed: "+why.Error()+"; let it send fewer keys at once")
}

func (r *refusals) line(remote net.Addr, k kind, text string) {
	more, due := r.kinds.Count(k, time.Now())
	if !due {
		return
	}
	attrs := []slog.Attr{
		slog.String("function", r.called(k.function)), slog.String("remote", remote.String()), slog.Int("code", int(k.code)),
	}
	if more > 0 {
		attrs = append(attrs, slog.Int("more_since_last_line", more))
	}
	r.log.LogAttrs(context.Background(), slog.LevelWarn, text, attrs...)
}
