package attack

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// TestRotation: the certificates of a pool are replaced again and again, and then its authority, by the steps of
// docs/security.md, while objects are put and read. No request fails, and the old authority is of no use in the end.
func TestRotation(t *testing.T) {
	p := start(t, "mtls")
	next := certs.Folder(filepath.Join(t.TempDir(), "next"))
	_, err := next.Init("next", 24*time.Hour, time.Now())
	require.NoError(t, err)
	before := map[int]int{}
	for _, proc := range p.procs {
		before[proc.PID()] = descriptors(t, proc.PID())
	}
	var user atomic.Pointer[http.Client] // the operator, with the present certificate
	enter := func(f certs.Folder) {
		files, err := f.Node(string(security.RoleOperator))
		require.NoError(t, err)
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		require.NoError(t, err)
		c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
		if old := user.Swap(c); old != nil {
			old.CloseIdleConnections()
		}
	}
	enter(p.dir)
	done := make(chan struct{})
	var load sync.WaitGroup
	var moved atomic.Int32
	for worker := range 3 {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key, value := fmt.Sprintf("w%d-%d", worker, i), strings.Repeat(fmt.Sprint(worker, i), 200)
				for _, call := range []struct{ method, addr, path, body string }{
					{"PUT", p.rest[0], "/api/put", `{"key":"` + key + `","value":"` + value + `"}`},
					{"GET", p.rest[1], "/api/get/" + key, ""},
				} {
					code, text, err := request(t, user.Load(), call.method, "https://"+call.addr+call.path, call.body, nil)
					if !assert.NoError(t, err, call.path) || !assert.Equal(t, http.StatusOK, code, "%s: %.200s", call.path, text) || call.method == "GET" && !assert.Equal(t, value, text) {
						return
					}
				}
				moved.Add(1)
			}
		})
	}
	renewals := 2
	if os.Getenv("MOONCAKE_TEST_LONG") != "" {
		renewals = 30
	}
	for range renewals {
		at := moved.Load()
		p.renew(t, p.dir)
		require.Eventually(t, func() bool { return moved.Load() > at || t.Failed() }, time.Minute, time.Millisecond, "objects move")
	}
	// Both authorities, then other certificates, then the new authority alone.
	ca := p.dir.Authority().Cert
	own, err := os.ReadFile(ca)
	require.NoError(t, err)
	other, err := os.ReadFile(next.Authority().Cert)
	require.NoError(t, err)
	write(t, ca, append(own, other...))
	for _, role := range security.Roles() {
		_, err := next.Issue(string(role), []string{"localhost", "127.0.0.1"}, time.Hour, time.Now(), security.Identity{Trust: "mooncake", Role: role, Name: "try"})
		require.NoError(t, err)
	}
	p.admits(t, next, true)
	enter(next)
	p.renew(t, next)
	write(t, ca, other)
	p.admits(t, p.dir, false)
	at := moved.Load()
	require.Eventually(t, func() bool { return moved.Load() > at+3 || t.Failed() }, time.Minute, time.Millisecond, "objects move")
	close(done)
	load.Wait()
	for _, proc := range p.procs {
		require.Eventually(t, func() bool { return descriptors(t, proc.PID()) <= before[proc.PID()]+24 }, time.Minute, 50*time.Millisecond, "descriptors of %s", proc.Name)
	}
}

// renew replaces the certificates of the pool's processes by those that a folder issues, and waits until all doors show
// them.
func (p *pool) renew(t *testing.T, by certs.Folder) {
	t.Helper()
	for _, role := range []security.Role{security.RoleMaster, security.RoleStore} {
		to, err := p.dir.Node(string(role))
		require.NoError(t, err)
		made, err := by.Issue(string(role)+"-next", []string{"localhost", "127.0.0.1"}, time.Hour, time.Now(), security.Identity{Trust: "mooncake", Role: role, Name: "try"})
		require.NoError(t, err)
		fresh := leaf(t, made.Cert)
		require.NoError(t, os.Rename(made.Key, to.Key))
		require.NoError(t, os.Rename(made.Cert, to.Cert))
		for _, d := range p.doors {
			if (role == security.RoleMaster) == (d.proc == p.procs[0]) {
				require.Eventually(t, func() bool { c, _ := p.shows(t, d, by, 0); return c != nil && c.Equal(fresh) }, time.Minute, 50*time.Millisecond, "%s of %s shows the new certificate", d.name, d.proc.Name)
			}
		}
	}
}

// admits waits until all doors take, or refuse, the certificates of a folder's clients.
func (p *pool) admits(t *testing.T, of certs.Folder, want bool) {
	t.Helper()
	for _, d := range p.doors {
		require.Eventually(t, func() bool { _, err := p.shows(t, d, of, 200*time.Millisecond); return (err == nil) == want }, time.Minute, 50*time.Millisecond, "%s of %s, admits: %v", d.name, d.proc.Name, want)
	}
}

// shows connects to a door as a client with a certificate of a folder, and returns the certificate of the server; the
// is that of a server that refuses the client, which it says within
// wait.
func (p *pool) shows(t *testing.T, d door, by certs.Folder, wait time.Duration) (*x509.Certificate, error) {
	t.Helper()
	f, err := by.Node(string(security.RoleClient))
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	require.NoError(t, err)
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}).DialContext(t.Context(), "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	cert := conn.(*tls.Conn).ConnectionState().PeerCertificates[0] //nolint:forcetypeassert // The package says so.
	_ = conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Read(make([]byte, 1)); err != nil && !timedOut(err) {
		return cert, err
	}
	return cert, nil
}

func leaf(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	c, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return c
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(name+".next", b, 0o600))
	require.NoError(t, os.Rename(name+".next", name))
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(list)
}
