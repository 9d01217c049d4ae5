package quic

import (
	"context"
	"errors"
	"fmt"
	"testing"

	quicgo "github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
)

// TestLeft: a write without an answer is indeterminate unless the peer has said that it touches its
// memory no more.
func TestLeft(t *testing.T) {
	reset := func(why wire.Reason, remote bool) error {
		return &quicgo.StreamError{ErrorCode: streamCode(why), Remote: remote}
	}
	closed := func(why wire.Reason, remote bool) error {
		return &quicgo.ApplicationError{ErrorCode: code(why), Remote: remote}
	}
	for name, c := range map[string]struct {
		err  error
		want outcome
	}{
		"the peer gave the request up":          {reset(wire.ReasonSlow, true), disclaimed},
		"the peer gave it up, wrapped":          {fmt.Errorf("path: %w", reset(wire.ReasonSlow, true)), disclaimed},
		"this side gave the request up":         {reset(wire.ReasonSlow, false), unknown},
		"the peer cuts requests as it stops":    {reset(wire.ReasonStopping, true), unknown},
		"the peer stopped":                      {closed(wire.ReasonStopping, true), disclaimed},
		"this side stopped":                     {closed(wire.ReasonStopping, false), unknown},
		"the peer had no streams in flight":     {closed(wire.ReasonIdle, true), disclaimed},
		"the peer refused the connection":       {&quicgo.TransportError{ErrorCode: quicgo.ConnectionRefused, Remote: true}, disclaimed},
		"the connection timed out":              {&quicgo.IdleTimeoutError{}, unknown},
		"an error that says nothing":            {errors.New("cut"), unknown},
		"the caller's context ended":            {context.Canceled, unknown},
		"the peer closed for another reason":    {closed(wire.ReasonBadFrame, true), unknown},
		"the peer reset for an unknown reason":  {reset(wire.NumReasons, true), unknown},
		"the transport failed on the peer side": {&quicgo.TransportError{ErrorCode: quicgo.InternalError, Remote: true}, unknown},
	} {
		require.Equal(t, c.want, left(c.err), name)
	}
}
