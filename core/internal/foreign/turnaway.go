package foreign

import (
	"bytes"
	"io"
	"net"
	"time"
)

const (
	// headWait bounds the wait for the rest of a request's head, which only serves to make the
	// answer and the log line more precise.
	headWait = 100 * time.Millisecond
	// answerWait bounds sending the answer and waiting for the client to read it.
	answerWait = time.Second
	// maxHead and maxDrained bound the bytes that are read from a refused client.
	maxHead    = 256
	maxDrained = 64 << 10
)

// Head reads more bytes of a client after the first ones: up to the end of the first line of an
// HTTP request, or enough of a coro_rpc request to answer it. It returns all bytes, at most 256,
// and waits at most 100 ms.
func Head(conn net.Conn, first []byte) []byte {
	p := FromClient(first)
	enough := func(b []byte) bool {
		switch p {
		case CoroRPC:
			return len(b) >= 8
		case HTTP:
			return bytes.IndexByte(b, '\n') >= 0
		default:
			return true
		}
	}
	head := append(make([]byte, 0, maxHead), first...)
	if conn.SetReadDeadline(time.Now().Add(headWait)) != nil {
		return head
	}
	for !enough(head) && len(head) < maxHead {
		n, err := conn.Read(head[len(head):maxHead])
		if head = head[:len(head)+n]; err != nil {
			break
		}
	}
	return head
}

// TurnAway sends the answer, if there is one, shuts the sending side down, and closes the
// connection once the client has closed it too, after a second at the latest. If it closed the
// connection while bytes of the client are unread, a reset could destroy the answer on its way.
func TurnAway(conn net.Conn, answer []byte) {
	defer conn.Close()
	if len(answer) == 0 || conn.SetDeadline(time.Now().Add(answerWait)) != nil {
		return
	}
	if _, err := conn.Write(answer); err != nil {
		return
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, maxDrained) // It ends when the client closes, or at the deadline.
}
