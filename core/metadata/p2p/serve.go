package p2p

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/metadata"
)

// maxLinger is how much a peer may still send after the answer before it is cut off.
const maxLinger = 64 << 10

// serve answers the one request of a connection and closes it. It calls arrived once the request is
// there.
func (d *Daemon) serve(conn net.Conn, arrived func()) {
	defer arrived()
	stop := context.AfterFunc(d.ctx, func() { conn.Close() })
	defer func() {
		stop()
		conn.Close()
	}()
	// A peer that went away needs no answer, so the errors of these end the connection.
	if conn.SetDeadline(time.Now().Add(d.opts.ReadTimeout)) != nil {
		return
	}
	request, err := ReadFrame(conn, d.opts.MaxLength)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			d.opts.Logger.Debug("handshake daemon: dropped a connection", "peer", conn.RemoteAddr(), "error", err)
		}
		return
	}
	arrived()
	if err := d.opts.Doors.Access().Check(access.With(d.ctx, access.PeerOf(conn)), callOf(request.Type)); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.opts.HandlerTimeout)
	defer cancel()
	reply := d.reply(ctx, request)
	if conn.SetDeadline(time.Now().Add(d.opts.HandlerTimeout)) != nil {
		return
	}
	if WriteFrame(conn, Frame{Type: request.Type, Untyped: request.Untyped, JSON: append(reply, '\n')}) != nil {
		return
	}
	// The peer closes first: closing here with bytes unread would reset the connection
	// under the answer.
	if half, ok := conn.(interface{ CloseWrite() error }); ok { // TCP, or TLS.
		if half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(d.opts.LingerTimeout)) != nil {
			return
		}
		defer d.wait(conn)()
		_, _ = io.CopyN(io.Discard, conn, maxLinger) // However it ends, the connection is done.
	}
}

// callOf returns the row of the table of calls for a request, nil if there is none.
func callOf(t Type) *access.Call {
	names := map[Type]string{TypeMetadata: "metadata", TypeProbe: "probe", TypeNotify: "notify", TypeConnection: "connection"}
	return access.Find(access.Handshake, names[t])
}

// reply returns the JSON that answers a request: null for what cannot be answered.
func (d *Daemon) reply(ctx context.Context, f Frame) (out []byte) {
	null := []byte("null")
	defer func() {
		if p := recover(); p != nil {
			d.opts.Logger.Error("handshake daemon: a handler panicked", "type", f.Type, "panic", p)
			out = null
		}
	}()
	switch f.Type {
	case TypeMetadata:
		if json := d.descriptor.Load(); json != nil {
			return append([]byte(nil), *json...)
		}
	case TypeProbe:
		return []byte(`{"status":"success"}`)
	case TypeNotify:
		return d.replyNotify(ctx, f.JSON)
	case TypeConnection:
		h := d.connection.Load()
		if h == nil || *h == nil {
			return null
		}
		answer, err := (*h)(ctx, f.JSON)
		if err == nil && json.Valid(answer) {
			return answer
		}
		d.opts.Logger.Warn("handshake daemon: a connection was not set up", "error", err)
	}
	return null
}

// replyNotify answers with an empty message where the notification is rejected.
func (d *Daemon) replyNotify(ctx context.Context, request []byte) []byte {
	rejected := []byte(`{"name":"","notify_msg":""}`)
	var n metadata.Notification
	if err := json.Unmarshal(request, &n); err != nil {
		return rejected
	}
	h := d.notify.Load()
	if h == nil || *h == nil {
		return rejected
	}
	if err := (*h)(ctx, n); err != nil {
		d.opts.Logger.Debug("handshake daemon: a notification was rejected", "from", n.Name, "error", err)
		return rejected
	}
	return []byte(`{"name":"","notify_msg":"success"}`)
}
