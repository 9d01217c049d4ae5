package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// stranger connects to the ports of all masters without a certificate, again and again: faults must not open a door.
type stranger struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
	tries  int // connections that a master accepted
	served int // those over which it answered
}

const (
	strangerPause = 50 * time.Millisecond
	strangerLimit = time.Second // of one connection
)

// watch starts a stranger of a pool whose masters demand certificates.
func watch(ctx context.Context, p *pool) *stranger {
	ctx, cancel := context.WithCancel(ctx)
	s := &stranger{cancel: cancel}
	s.work.Go(func() {
		for pause(ctx, strangerPause) {
			for i, port := range p.ports {
				addr, admin := net.JoinHostPort(p.host, strconv.Itoa(port)), i%2 == 1
				s.try(ctx, addr, admin, true)
				if admin { // A gRPC client in plaintext gets a refusal that looks like the beginning of a session.
					s.try(ctx, addr, admin, false)
				}
			}
		}
	})
	return s
}

// end stops the stranger and enters what it saw into a row.
func (s *stranger) end(r *Row) {
	s.cancel()
	s.work.Wait()
	r.StrangerTries, r.StrangersServed = s.tries, s.served
}

// preface begins HTTP/2 with empty settings, to which a server says its own.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// try connects to the RPC port or the admin port of a master, over TLS or in plaintext.
func (s *stranger) try(ctx context.Context, addr string, admin, secure bool) {
	d := net.Dialer{Timeout: strangerLimit}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return // The master was killed, or does not lead.
	}
	defer conn.Close()
	s.tries++
	_ = conn.SetDeadline(time.Now().Add(strangerLimit)) // A connection that is over fails below.
	protocol, request := "h2", preface
	if admin {
		protocol, request = "http/1.1", "GET /get_all_segments HTTP/1.1\r\nHost: a\r\n\r\n"
	}
	if secure { // Whoever the server is.
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}) //nolint:gosec // An attacker.
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return
	}
	if secure { // A refusal comes as an alert, which is an error.
		if n, _ := conn.Read(make([]byte, 1)); n > 0 {
			s.served++
		}
		return
	}
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
		if resp.StatusCode == http.StatusOK {
			s.served++
		}
		_ = resp.Body.Close() // Nothing of it was of interest.
	}
}
