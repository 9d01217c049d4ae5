package netem

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	quic "github.com/mooncake-go/mooncake/plugins/transport-quic"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const roleEnv = "MOONCAKE_NETEM_ROLE"

func TestMain(m *testing.M) {
	if text := os.Getenv(memberEnv); text != "" {
		os.Exit(playMember(text))
	}
	if text := os.Getenv(roleEnv); text != "" {
		if err := play(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// part is what one of the two processes is told.
type part struct {
	Transport string
	Config    json.RawMessage
	Host      string
	// Of the side that moves bytes.
	Peer    *offer
	Kind    transport.OpKind
	OpBytes int
	Depth   int
	WarmUp  time.Duration
	Measure time.Duration
	// Enough, if set, has it measure on until so many bytes came, at most for Longest.
	Enough  int64
	Longest time.Duration
}

// offer is what the serving side prints.
type offer struct {
	Blob        []byte
	Incarnation uint64
	Key         []byte
}

// outcome is what the moving side prints.
type outcome struct {
	Bytes   int64
	Seconds float64
	Failed  int
	Note    string
}

const regionBytes = 64 << 20

type host struct{}

func (host) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
func (host) Report(plugin.Health) {}

// newTransport makes the transport that a part names.
func (p *part) newTransport() (transport.Transport, error) {
	if p.Transport == "tcp" {
		c := tcp.DefaultConfig()
		if err := json.Unmarshal(p.Config, c); err != nil {
			return nil, err
		}
		c.Host = p.Host
		return tcp.Factory().New(c)
	}
	c := quic.DefaultConfig()
	if err := json.Unmarshal(p.Config, c); err != nil {
		return nil, err
	}
	c.Host = p.Host
	return quic.Factory().New(c)
}

// play is the main function of either process.
func play(text string) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	ctx := context.Background()
	tr, err := p.newTransport()
	if err != nil {
		return err
	}
	if err := tr.Start(ctx, host{}); err != nil {
		return err
	}
	defer tr.Stop(ctx)
	mem := make([]byte, regionBytes)
	key, err := tr.Register(ctx, transport.Region{ID: 1, Mem: mem, FD: -1, Location: "*", Access: transport.AccessRemote})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if p.Peer == nil {
		ep := tr.Endpoint()
		if err := out.Encode(offer{ep.Blob, ep.Incarnation, key}); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, os.Stdin) // Until the test has what it wants, or has died.
		return err
	}
	o, err := p.move(ctx, tr, mem)
	if s, ok := tr.(quic.StatsReporter); ok {
		for _, c := range s.Stats().Connections {
			o.Note += fmt.Sprintf("[window %dk rtt %v lost %d of %d datagram %d gso %v]", c.Window>>10, c.RTT.Round(time.Millisecond), c.PacketsLost, c.PacketsSent, c.Datagram, c.GSO)
		}
	}
	if err != nil {
		return err
	}
	return out.Encode(o)
}

// move keeps operations in flight and counts the bytes of those that end while it measures.
func (p *part) move(ctx context.Context, tr transport.Transport, mem []byte) (outcome, error) {
	path, err := tr.Dial(ctx, transport.Endpoint{Blob: p.Peer.Blob, Incarnation: p.Peer.Incarnation})
	if err != nil {
		return outcome{}, err
	}
	// Not closed: what is in flight would be waited for, and this process ends anyway.
	id, err := path.Import(ctx, p.Peer.Key)
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	begin := time.Now()
	from, to := begin.Add(p.WarmUp), begin.Add(p.WarmUp+p.Measure)
	last := to
	if p.Longest > p.Measure {
		last = from.Add(p.Longest)
	}
	done := make([]transport.Completion, 64)
	open, slots := 0, len(mem)/p.OpBytes
	end, cancel := context.WithDeadline(ctx, last) // A link may give nothing for long.
	defer cancel()
	for next := 0; ; {
		for open < p.Depth {
			at := next % slots * p.OpBytes
			n, err := path.Submit([]transport.Op{{ID: uint64(next), Kind: p.Kind, Local: mem[at:][:p.OpBytes], Remote: id, Offset: uint64(at)}})
			if err != nil {
				return o, err
			}
			if n == 0 {
				break
			}
			next, open = next+1, open+1
		}
		n, err := path.Reap(end, done)
		now := time.Now()
		if now.After(last) || end.Err() != nil || now.After(to) && o.Bytes >= p.Enough {
			o.Seconds = min(now.Sub(from), last.Sub(from)).Seconds()
			return o, nil
		}
		if err != nil {
			return o, err
		}
		open -= n
		for _, c := range done[:n] {
			switch {
			case c.Status != transport.OK:
				o.Failed++
				o.Note = c.Err.Error()
			case now.After(from):
				o.Bytes += int64(p.OpBytes)
			}
		}
	}
}

// start runs a part in a namespace, until stop or the end of the test.
func (l *link) start(t testing.TB, end int, p part) (stdout *bufio.Reader, stop func()) {
	t.Helper()
	p.Host = address[end]
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), roleEnv+"="+string(text))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ends[end].do(c.Start); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = c.Process.Kill() // Closing would send its farewells over the link.
		_ = c.Wait()
		_ = in.Close()
	})
	t.Cleanup(stop)
	return bufio.NewReader(out), stop
}

// measure moves bytes over the link from end 1, the peer being end 0, and says how many
// bytes a second that were.
func (l *link) measure(t testing.TB, p part) (speed float64, o outcome) {
	t.Helper()
	return l.begin(t, p)()
}

// begin is measure in two parts: what it returns waits for the result.
func (l *link) begin(t testing.TB, p part) func() (speed float64, o outcome) {
	t.Helper()
	serving := part{Transport: p.Transport, Config: p.Config}
	out, stop := l.start(t, 0, serving)
	var peer offer
	if err := json.NewDecoder(out).Decode(&peer); err != nil {
		t.Fatalf("%s: the serving process: %v", p.Transport, err)
	}
	p.Peer = &peer
	moved, ended := l.start(t, 1, p)
	return func() (float64, outcome) {
		t.Helper()
		var o outcome
		if err := json.NewDecoder(moved).Decode(&o); err != nil {
			t.Fatalf("%s: the moving process: %v", p.Transport, err)
		}
		ended()
		stop()
		return float64(o.Bytes) / o.Seconds, o
	}
}
