// Package handshake is the message with which two nodes set a connection up, and its
// frame on a TCP connection. Both are those of kvcache-ai/Mooncake ("upstream"); what our
// own nodes tell each other besides is in one more key, which upstream ignores.
package handshake

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// The types of frame. Only TypeConnection is of this package's messages.
const (
	TypeConnection = 0
	TypeMetadata   = 1
	TypeNotify     = 2
	TypeProbe      = 3
)

// MaxFrame bounds a frame that is read, in bytes. Upstream's own bound is the same.
const MaxFrame = 1 << 20

// The bounds of a message.
const (
	maxQueuePairs = 255
	maxText       = 1024
)

// ErrMalformed is in every error about bytes that are no frame or message.
var ErrMalformed = errors.New("malformed handshake")

// Message asks for a connection, or answers. An answer has the paths swapped.
type Message struct {
	Payload string `json:"payload"`
	// LocalPath is "server@device" of the sender, PeerPath that of the receiver.
	LocalPath string `json:"local_nic_path"`
	LID       uint32 `json:"local_lid"`
	GID       string `json:"local_gid"`
	PeerPath  string `json:"peer_nic_path"`
	// QueuePairs are the numbers of the queue pairs; equal indexes are connected.
	QueuePairs []uint32 `json:"qp_num"`
	// Ready is nil from nodes that know one round only. Else false asks for a second
	// round, and true is it.
	Ready *bool `json:"ready_ack,omitempty"`
	// Reply is empty for success, else why the request is refused.
	Reply string `json:"reply_msg"`
	// Own is between our own nodes, nil otherwise.
	Own *Own `json:"x_mooncake_go,omitempty"`
}

// Own is what our own nodes add.
type Own struct {
	// Incarnation is, in a request, the one that the sender wants to reach; in an answer,
	// that of the sender.
	Incarnation uint64 `json:"incarnation"`
	// From is the incarnation of the sender of a request.
	From uint64 `json:"from,omitempty"`
	// MTU is the largest packet of the sender's port in bytes. Both use the smaller one.
	MTU int `json:"mtu"`
	// PSN are the first packet numbers that the sender will use, one for each queue pair.
	PSN []uint32 `json:"psn,omitempty"`
	// Reads is how many Reads of the receiver the sender serves at a time.
	Reads int `json:"reads,omitempty"`
	// Code and Class are those of the error that Reply tells.
	Code  int32 `json:"code,omitempty"`
	Class uint8 `json:"class,omitempty"`
}

// Encode returns the JSON text.
func (m *Message) Encode() ([]byte, error) { return json.Marshal(m) }

// Decode reads a message and checks its bounds. Unknown keys are ignored.
func Decode(text []byte) (*Message, error) {
	var m *Message
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch {
	case m == nil:
		return nil, fmt.Errorf("%w: null", ErrMalformed)
	case len(m.QueuePairs) > maxQueuePairs:
		return nil, fmt.Errorf("%w: %d queue pairs, at most %d are possible", ErrMalformed, len(m.QueuePairs), maxQueuePairs)
	case len(m.LocalPath) > maxText || len(m.PeerPath) > maxText || len(m.GID) > maxText || len(m.Reply) > 64*maxText:
		return nil, fmt.Errorf("%w: a text is too long", ErrMalformed)
	}
	for _, n := range m.QueuePairs {
		if n >= 1<<24 {
			return nil, fmt.Errorf("%w: queue pair %d has more than 24 bits", ErrMalformed, n)
		}
	}
	if o := m.Own; o != nil {
		if len(o.PSN) != 0 && len(o.PSN) != len(m.QueuePairs) {
			return nil, fmt.Errorf("%w: %d packet numbers for %d queue pairs", ErrMalformed, len(o.PSN), len(m.QueuePairs))
		}
		for _, n := range o.PSN {
			if n >= 1<<24 {
				return nil, fmt.Errorf("%w: packet number %d has more than 24 bits", ErrMalformed, n)
			}
		}
	}
	return m, nil
}

// NICPath joins the names of a server and of one of its devices.
func NICPath(server, device string) string { return server + "@" + device }

// SplitNICPath is the reverse of NICPath. ok is false where either part is missing.
func SplitNICPath(path string) (server, device string, ok bool) {
	i := strings.LastIndexByte(path, '@')
	if i <= 0 || i == len(path)-1 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// WriteFrame sends a frame in one write.
func WriteFrame(w io.Writer, kind byte, text []byte) error {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 9+len(text)), uint64(len(text))+1)
	b = append(append(b, kind), text...)
	_, err := w.Write(b)
	return err
}

// ReadFrame reads a frame of at most limit bytes. A payload of the old protocol, which has
// no type, counts as TypeConnection.
func ReadFrame(r io.Reader, limit int) (kind byte, text []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n == 0 || n > uint64(limit) {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, must be 1 to %d", ErrMalformed, n, limit)
	}
	var b bytes.Buffer // It grows with what arrives, not with what is announced.
	if _, err := io.CopyN(&b, r, int64(n)); errors.Is(err, io.EOF) {
		return 0, nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return 0, nil, err
	}
	body := b.Bytes()
	if body[0] > TypeProbe {
		return TypeConnection, body, nil
	}
	return body[0], body[1:], nil
}

// The bytes of the lifeline: the TCP connection of a handshake between our own nodes, which stays
// open. The side that made the connection says EndOfWork when it gives the connection up. The other
// side answers with the reason for its end, after its queue pairs are destroyed.
const (
	EndOfWork   = 'E'
	EndAnswered = 'q'
	EndStopping = 's'
	EndDevice   = 'd'
	EndUnproven = 'x' // A queue pair could not be destroyed.
)

// KeepAlive makes a lifeline notice within half a minute that the other machine is gone.
func KeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
}

// Dial connects to the first address that answers. The addresses share the time that is left.
func Dial(ctx context.Context, addrs []string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: KeepAlive()}
	err := errors.New("no address of the peer is known")
	for i, a := range addrs {
		share := ctx
		if at, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			share, cancel = context.WithTimeout(ctx, time.Until(at)/time.Duration(len(addrs)-i))
			defer cancel()
		}
		var nc net.Conn
		if nc, err = d.DialContext(share, "tcp", a); err == nil {
			return nc, nil
		}
	}
	return nil, err
}

// Ask sends a request and reads the answer.
func Ask(ctx context.Context, nc net.Conn, m *Message) (*Message, error) {
	text, err := m.Encode()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := WriteFrame(nc, TypeConnection, text); err != nil {
		return nil, err
	}
	_, answer, err := ReadFrame(nc, MaxFrame)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the peer does not answer: %w", ctx.Err())
		}
		return nil, err
	}
	if !stop() {
		return nil, ctx.Err()
	}
	return Decode(answer)
}
