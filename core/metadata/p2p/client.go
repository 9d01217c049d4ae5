package p2p

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Dialer asks daemons; the zero value is usable. Safe for concurrent use.
type Dialer struct {
	// ConnectTimeout bounds the connection. Default 5 s.
	ConnectTimeout time.Duration
	// Timeout bounds a whole exchange, unless the caller's context ends earlier. Default
	// 15 s.
	Timeout time.Duration
	// MaxLength of an answer. Default DefaultMaxLength.
	MaxLength int
}

// Exchange sends one request and returns the JSON of the answer. RPCFail with a class of
// transient-peer when the daemon is not reached or does not speak, RPCTimeout when it does
// not answer in time.
func (d Dialer) Exchange(ctx context.Context, a metadata.Address, t Type, request []byte) ([]byte, error) {
	timeout, connect, maxLength := d.Timeout, d.ConnectTimeout, d.MaxLength
	if timeout <= 0 {
		timeout = 15 * time.Second
	}
	if connect <= 0 {
		connect = 5 * time.Second
	}
	if maxLength <= 0 {
		maxLength = DefaultMaxLength
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: connect}).DialContext(ctx, "tcp", a.String())
	if err != nil {
		return nil, unreachable(a, err)
	}
	// Closing at once matters: a daemon of upstream serves no other client until then.
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := WriteFrame(conn, Frame{Type: t, JSON: request}); err != nil {
		return nil, unreachable(a, errors.Join(ctx.Err(), err))
	}
	reply, err := ReadFrame(conn, maxLength)
	if errors.Is(err, io.EOF) {
		err = errors.New("it closed the connection without an answer")
	}
	if err != nil {
		return nil, unreachable(a, errors.Join(ctx.Err(), err))
	}
	return bytes.TrimSpace(reply.JSON), nil
}

// Fetch asks for the descriptor of a node; own is the caller's, nil for none. ErrNotFound
// where the node publishes nothing.
func (d Dialer) Fetch(ctx context.Context, a metadata.Address, own []byte) (*metadata.Descriptor, error) {
	if own == nil {
		own = []byte("{}")
	}
	reply, err := d.Exchange(ctx, a, TypeMetadata, own)
	if err != nil {
		return nil, err
	}
	if string(reply) == "null" {
		return nil, metadata.ErrNotFound
	}
	return metadata.DecodeDescriptor(reply)
}

// Probe reports whether a daemon answers at an address.
func (d Dialer) Probe(ctx context.Context, a metadata.Address) error {
	reply, err := d.Exchange(ctx, a, TypeProbe, []byte("{}"))
	if err != nil {
		return err
	}
	var answer struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(reply, &answer); err != nil || answer.Status != "success" {
		return errs.New(errs.RPCFail, "handshake with "+a.String(), "it answered the probe with %.100q", reply)
	}
	return nil
}

// Notify delivers a notification; RPCFail where it is rejected.
func (d Dialer) Notify(ctx context.Context, a metadata.Address, n metadata.Notification) error {
	request, err := json.Marshal(n)
	if err != nil {
		return errs.Wrap(errs.Internal, "handshake: notify", err)
	}
	reply, err := d.Exchange(ctx, a, TypeNotify, request)
	if err != nil {
		return err
	}
	var answer metadata.Notification
	if err := json.Unmarshal(reply, &answer); err != nil || answer.Message == "" {
		return &errs.Error{Code: errs.RPCFail, Class: errs.ClassPermanent, Op: "handshake with " + a.String(), Err: errors.New("it rejected the notification")}
	}
	return nil
}

func unreachable(a metadata.Address, err error) error {
	code := errs.RPCFail
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		code = errs.RPCTimeout
	}
	return errs.WithClass(errs.ClassTransientPeer, "", errs.Wrap(code, "handshake with "+a.String(), err))
}
