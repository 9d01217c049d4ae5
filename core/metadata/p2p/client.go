package p2p

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
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
	// Doors protects the connections; nil for plaintext.
	Doors *doors.Doors
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
	dial := d.Doors.Dialer(config.DoorHandshake, (&net.Dialer{Timeout: connect}).DialContext, security.RoleStore, security.RoleClient)
	conn, err := dial(ctx, "tcp", a.String())
	if err != nil {
		return nil, unreachable(a, d.explain(err))
	}
	// Closing at once matters: a daemon of upstream serves no other client until then.
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := WriteFrame(conn, Frame{Type: t, JSON: request}); err != nil {
		return nil, unreachable(a, errors.Join(ctx.Err(), err))
	}
	var first beginning
	reply, err := ReadFrame(io.TeeReader(conn, &first), maxLength)
	if errors.Is(err, io.EOF) {
		err = errors.New("it closed the connection without an answer")
	}
	if err != nil {
		if foreign.FromServer(first) == foreign.TLS {
			err = errs.WithHint(fmt.Errorf("it takes TLS only: %w", err), "%s", sameMode)
		}
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

const sameMode = "security.mode must be the same in all processes of a pool"

// explain adds to the error of a connection what it may mean.
func (d Dialer) explain(err error) error {
	if d.Doors.Protection(config.DoorHandshake) != "plaintext" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		return errs.WithHint(fmt.Errorf("it closed the connection in the TLS handshake; it may speak plaintext, and this node demands TLS: %w", err),
			"set security.mode there; %s", sameMode)
	}
	return err
}

// beginning keeps the first bytes of an answer.
type beginning []byte

// Write implements io.Writer.
func (b *beginning) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), foreign.Least-len(*b))]...)
	return len(p), nil
}

func unreachable(a metadata.Address, err error) error {
	code := errs.RPCFail
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		code = errs.RPCTimeout
	}
	return errs.WithClass(errs.ClassTransientPeer, "", errs.Wrap(code, "handshake with "+a.String(), err))
}
