package lean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// soon is how long a server may take to answer the preface before it is asked whether it
	// speaks something else; it may still answer then.
	soon = 300 * time.Millisecond
	// inquiry bounds that question.
	inquiry = 400 * time.Millisecond
)

// ForeignError says that something at an address speaks another protocol than this package's.
// errs.ErrForeign is in its chain; its status is FailedPrecondition.
type ForeignError struct {
	Addr     string
	Protocol foreign.Protocol
	// First is what the server began with, where Protocol is foreign.Unknown.
	First []byte
}

// Error names what answers at the address.
func (e *ForeignError) Error() string {
	text := e.Addr + " is " + e.Protocol.Server() + ", it speaks another protocol than this program"
	if len(e.First) > 0 {
		text += fmt.Sprintf(": it began with %q", e.First)
	}
	return text
}

// Unwrap returns errs.ErrForeign.
func (e *ForeignError) Unwrap() error { return errs.ErrForeign }

// GRPCStatus implements what package status looks for.
func (e *ForeignError) GRPCStatus() *status.Status {
	return status.New(codes.FailedPrecondition, e.Error())
}

// greet exchanges the prefaces. A server that hangs up, or that does not answer soon, is asked
// over connections of its own what it speaks.
func (s *session) greet(ctx context.Context, dial foreign.Dial) error {
	end, bounded := ctx.Deadline()
	early := time.Now().Add(soon)
	if bounded && end.Before(early) {
		early = end
	}
	if err := s.conn.SetDeadline(early); err != nil {
		return err
	}
	_, err := io.WriteString(s.conn, preface)
	var got []byte
	if err == nil {
		got, err = s.begun()
	}
	switch {
	case err == nil, len(got) >= foreign.Least && !strings.HasPrefix(preface, string(got)):
		err = s.judge(got)
	default:
		if p := ask(ctx, dial); p != foreign.Unknown && p != foreign.Lean {
			return &ForeignError{Protocol: p}
		}
		if !late(err) {
			return fmt.Errorf("it closed the connection before it answered: %w", err)
		}
		if err := s.conn.SetDeadline(end); err != nil { // Without a deadline that is the zero time, and none.
			return err
		}
		if got, err = s.begun(); err != nil && len(got) < foreign.Least {
			return fmt.Errorf("it does not answer: %w", err)
		}
		err = s.judge(got)
	}
	if err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Time{})
}

// begun returns what the server began with: as much as the preface has, or less with an error.
func (s *session) begun() ([]byte, error) {
	err := s.in.Need(len(preface))
	got := s.in.Buffered()
	return got[:min(len(got), len(preface))], err
}

// judge takes the server's preface, given what it began with.
func (s *session) judge(got []byte) error {
	if string(got) == preface {
		s.in.Drop(len(preface))
		return nil
	}
	e := &ForeignError{Protocol: foreign.FromServer(got)}
	if e.Protocol == foreign.Unknown || e.Protocol == foreign.Lean {
		e.Protocol, e.First = foreign.Unknown, append([]byte(nil), got...)
	}
	return e
}

func ask(ctx context.Context, dial foreign.Dial) foreign.Protocol {
	ctx, cancel := context.WithTimeout(ctx, inquiry)
	defer cancel()
	return foreign.Ask(ctx, dial)
}

func late(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
