package attack

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// The bounds of what strangers cost a process, however many connections they make.
const (
	mostGrowth      = 96 << 10 // KiB of resident memory
	mostDescriptors = 24
	mostSilent      = 256 + 16 // connections of one door before their handshake, and others that come and go
	mostLines       = 40       // of the log: one a minute for each door and reason
)

// cost is what a process uses.
type cost struct{ kib, descriptors, lines int }

func (p *pool) cost(t *testing.T, d door) cost {
	t.Helper()
	used := cost{descriptors: descriptors(t, d.proc.PID()), lines: strings.Count(p.logs[d.proc.Name].String(), "\n")}
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", d.proc.PID()))
	require.NoError(t, err)
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if rest, ok := strings.CutPrefix(in.Text(), "VmRSS:"); ok {
			used.kib, err = strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			require.NoError(t, err)
		}
	}
	return used
}

// rubbish is what the i-th stranger sends.
func rubbish(t *testing.T, i int, random *rand.Rand) []byte {
	t.Helper()
	noise := make([]byte, random.IntN(4000))
	for j := range noise {
		noise[j] = byte(random.Uint32())
	}
	g := modern(suites13...)
	hello := g.records(g.message(t), 1<<14)
	switch i % 6 {
	case 0:
		return noise
	case 1: // A ClientHello with some wrong bytes.
		for range 1 + random.IntN(8) {
			hello[random.IntN(len(hello))] = byte(random.Uint32())
		}
		return hello
	case 2: // And one that does not end.
		return hello[:random.IntN(len(hello))]
	case 3: // Noise where the client's Finished should be.
		return append(hello, append([]byte{0x17, 3, 3, 0x10, 0}, noise...)...)
	case 4:
		return append([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n"), noise...)
	}
	return nil
}

// flood sends rubbish over some thousand connections, and looks at what that costs.
func (c *campaign) flood(t *testing.T) {
	t.Helper()
	each := 250
	if os.Getenv("MOONCAKE_TEST_LONG") != "" {
		each = 5000
	}
	before := map[string]cost{}
	for _, d := range c.doors {
		before[d.proc.Name] = c.cost(t, d)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n, d := range c.doors {
		var all sync.WaitGroup
		for worker := range 10 {
			random := rand.New(rand.NewPCG(seed, uint64(n*100+worker)))
			all.Go(func() {
				for i := range each / 10 {
					send := rubbish(t, i, random)
					conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", d.addr)
					if err != nil {
						t.Errorf("%s of %s takes no connections: %v", d.name, d.proc.Name, err)
						return
					}
					_ = conn.SetDeadline(time.Now().Add(20 * time.Millisecond)) // Some do not wait for the answer.
					_, _ = conn.Write(send)
					_, _ = conn.Read(make([]byte, 100))
					_ = conn.Close()
				}
			})
		}
		all.Wait()
	}
	seen := map[string]bool{}
	for _, d := range c.doors {
		if seen[d.proc.Name] {
			continue
		}
		seen[d.proc.Name] = true
		old, now := before[d.proc.Name], cost{}
		settled := func() bool {
			now = c.cost(t, d)
			return now.descriptors <= old.descriptors+mostDescriptors && now.kib <= old.kib+mostGrowth
		}
		for end := time.Now().Add(30 * time.Second); !settled() && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		c.note(fmt.Sprintf("%d connections with rubbish to each door of %s", each, d.proc.Name), settled() && now.lines <= old.lines+mostLines && c.get(t) == victim,
			"memory %d KiB and then %d, descriptors %d and %d, lines of the log %d and %d", old.kib, now.kib, old.descriptors, now.descriptors, old.lines, now.lines)
	}
}

// overQUIC attacks the port of transport/quic.
func (c *campaign) overQUIC(t *testing.T) {
	t.Helper()
	ports := regexp.MustCompile(`plugin=transport/quic address=(\S+)`)
	c.run(t, security.RoleStore, "quic", "memory is mounted", "store", "--master_server_address", c.rpc, "--metadata_server", "http://"+c.meta+"/metadata",
		"--local_hostname", "127.0.0.1", "--global_segment_size", "16MiB", "--keep", "off", "--transports", "quic", "--rest_host", "127.0.0.1", "--port", "0")
	proc := c.procs[len(c.procs)-1]
	found := ports.FindStringSubmatch(proc.Tail())
	require.NotNil(t, found, proc.Tail())
	d := door{"data over QUIC", found[1], proc}
	before := c.cost(t, d)
	raw, err := new(net.Dialer).DialContext(t.Context(), "udp", d.addr)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		noise := make([]byte, 1+random.IntN(1400))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		noise[0] |= 0xc0 // A long header, as the packets that begin a connection have it.
		_, _ = raw.Write(noise)
	}
	_ = raw.Close()
	other := certs.Folder(t.TempDir())
	_, err = other.Init("other", time.Hour, time.Now())
	require.NoError(t, err)
	id := security.Identity{Trust: "mooncake", Role: security.RoleClient, Name: "try"}
	issue := func(f certs.Folder, name string, id ...security.Identity) []tls.Certificate {
		files, err := f.Issue(name, []string{"127.0.0.1"}, time.Hour, time.Now(), id...)
		require.NoError(t, err)
		return c.with(t, files.Cert, files.Key).Certificates
	}
	good, reader := id, id
	reader.Role = security.RoleReader
	for name, shown := range map[string][]tls.Certificate{
		"no certificate": nil, "a certificate of another authority": issue(other, "strange", good), "a certificate without an identity": issue(c.dir, "unknown"),
		"a certificate of the wrong role": issue(c.dir, "reading", reader),
	} {
		err := overQUIC(t, d.addr, shown)
		c.note(name+" at "+d.name, err != nil, "%v", err)
	}
	err = overQUIC(t, d.addr, issue(c.dir, "good", good))
	now := c.cost(t, d)
	c.note("3000 datagrams with rubbish at "+d.name+", and a good client", err == nil && now.kib <= before.kib+mostGrowth && now.lines <= before.lines+mostLines, "%v, memory %d KiB and then %d", err, before.kib, now.kib)
}

// overQUIC connects and returns why the server ended the connection, nil where it waits for a request.
func overQUIC(t *testing.T, addr string, shown []tls.Certificate) error {
	t.Helper()
	conn, err := quicgo.DialAddr(t.Context(), addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"mooncake-quic/1"}, Certificates: shown}, nil)
	if err != nil {
		return err
	}
	defer conn.CloseWithError(0, "") //nolint:errcheck // The test is over.
	stream, err := conn.OpenStreamSync(t.Context())
	if err != nil {
		return err
	}
	_ = stream.SetDeadline(time.Now().Add(time.Second)) // A server that refuses says so at once.
	_, _ = stream.Write([]byte{0})
	if _, err = stream.Read(make([]byte, 1)); timedOut(err) {
		return nil
	}
	return err
}
