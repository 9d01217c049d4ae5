package foreign

import (
	"bytes"
	"io"
	"net"
	"time"
)

const (
	// headWait bounds the wait for the rest of a request's head, which only makes the answer
	// and the line in the log more precise.
	headWait = 100 * time.Millisecond
	// answerWait bounds the sending of the answer, and the wait for the client to take it.
	answerWait = time.Second
	// maxHead and maxDrained bound what is read of a client that is turned away, in bytes.
	maxHead    = 256
	maxDrained = 64 << 10
)

// Head reads more of what a client sends whose first bytes were read: the first line of an
// HTTP request, and enough of a request of coro_rpc to answer it. It returns all bytes read,
// at most 256, and waits at most 100 ms.
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

// TurnAway sends the answer, if there is one, ends the sending side at once, and closes the
// connection when the client has closed it too, after a second at the latest: to close it
// before the client's bytes are read would destroy the answer on its way.
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
	_, _ = io.CopyN(io.Discard, conn, maxDrained) // It ends with the client's end or the deadline.
}
