package netem

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// far is the link of the promise: a round trip of 50 ms, one packet in a hundred lost.
var far = Shape{Delay: 25 * time.Millisecond, Loss: 0.01, Rate: 1e9, MaxQueue: 50 * time.Millisecond}

var directions = []struct {
	name string
	kind transport.OpKind
}{{"read", transport.Read}, {"write", transport.Write}}

func tcpPart(connections int) part {
	return part{Transport: "tcp", Config: json.RawMessage(fmt.Sprintf(`{"connections_per_peer":%[1]d,"connections_far":%[1]d,"op_timeout":"2m","stall_timeout":"1m"}`, connections))}
}

func quicPart(settings string) part {
	return part{Transport: "quic", Config: json.RawMessage(`{"insecure_dev":true,"op_timeout":"2m","stall_timeout":"1m","dial_timeout":"1m"` + settings + `}`)}
}

func (p part) load(kind transport.OpKind, opBytes, depth int, warmUp, measure time.Duration) part {
	p.Kind, p.OpBytes, p.Depth, p.WarmUp, p.Measure = kind, opBytes, depth, warmUp, measure
	return p
}

// TestTry measures what NETEM_TRY names, for people who look for better defaults.
func TestTry(t *testing.T) {
	text := os.Getenv("NETEM_TRY")
	if text == "" {
		t.Skip("NETEM_TRY is not set")
	}
	congestion := os.Getenv("NETEM_TCP")
	if congestion == "" {
		congestion = "cubic"
	}
	s := far
	if f := os.Getenv("NETEM_SHAPE"); f != "" {
		if _, err := fmt.Sscanf(f, "%g,%v,%g", &s.Loss, (*int64)(&s.Delay), &s.Rate); err != nil {
			t.Fatal(err)
		}
	}
	l := newLink(t, s, congestion)
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	for _, d := range directions {
		q := p.load(d.kind, 64<<10, 512, 4*time.Second, 8*time.Second)
		v, o := l.measure(t, q)
		t.Logf("%s %s: %.2f MB/s, %d failed %s; %s", p.Transport, d.name, v/1e6, o.Failed, o.Note, l.figures())
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

const (
	opBytes = 64 << 10
	depth   = 512
	// goal is how many times the speed of tcp with one stream is promised.
	goal = 3
)

// TestFarAndLossy: on the link of the promise quic moves at least three times the bytes of tcp with
// one stream, in both directions. Both move at the same time, each over a link of its own: what
// slows this machine slows both. Losses and round trips keep tcp to 0.3 MB/s and quic to 50 times
// that, so the promise still holds on a machine that can do a tenth of it.
func TestFarAndLossy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	emulated := os.Getenv("RDMA_VM") != ""
	warmUp, measure, depth := time.Second, 3*time.Second, depth
	if emulated {
		// Handshakes and the growth of the windows take seconds there. Requests share a connection: the
		// first of 512 would be done when half a minute's worth of bytes has been moved.
		warmUp, measure, depth = 5*time.Second, 20*time.Second, 64
	}
	load := func(p part, kind transport.OpKind) part {
		p = p.load(kind, opBytes, depth, warmUp, measure)
		p.Enough, p.Longest = 16*opBytes, time.Minute // The speed of a few requests is chance.
		return p
	}
	tcpLink, quicLink := newLink(t, far, "cubic"), newLink(t, far, "cubic")
	for _, d := range directions {
		slowly := tcpLink.begin(t, load(tcpPart(1), d.kind))
		fast, q := quicLink.measure(t, load(quicPart(""), d.kind))
		slow, s := slowly()
		slow = max(slow, opBytes/s.Seconds) // None at all is not a speed to be a multiple of.
		t.Logf("%s over %s: tcp with one stream %.2f MB/s in %.0f s, quic %.2f MB/s in %.0f s, %.1f times; %s",
			d.name, quicLink.by, slow/1e6, s.Seconds, fast/1e6, q.Seconds, fast/slow, quicLink.figures())
		if q.Failed > 0 {
			t.Errorf("%s: %d operations of quic failed: %s", d.name, q.Failed, q.Note)
		}
		switch {
		case emulated:
			// An emulated processor encrypts 20 times slower: that both transports move is all it can show.
			if q.Bytes < 16*opBytes {
				t.Errorf("%s: quic moved %d bytes in %.0f s", d.name, q.Bytes, q.Seconds)
			}
		case fast < goal*slow:
			t.Errorf("%s: quic moved %.1f times the bytes of tcp with one stream, want %d", d.name, fast/slow, goal)
		}
	}
}

// BenchmarkLinks writes the table of docs/quic.md: medians of three rounds each, or of
// NETEM_ROUNDS. NETEM_ONLY names one link.
func BenchmarkLinks(b *testing.B) {
	transports := []struct {
		name, congestion string
		p                part
	}{
		{"tcp, one stream, cubic", "cubic", tcpPart(1)},
		{"tcp, one stream, reno", "reno", tcpPart(1)},
		{"tcp, one stream, bbr", "bbr", tcpPart(1)},
		{"tcp, 8 streams, cubic", "cubic", tcpPart(8)},
		{"quic, 1 connection", "cubic", quicPart(`,"connections_per_peer":1,"connections_lossy":0`)},
		{"quic, 8 connections", "cubic", quicPart(`,"connections_lossy":0`)},
		{"quic, defaults", "cubic", quicPart("")},
	}
	shapes := []struct {
		name string
		s    Shape
	}{
		{"50 ms, 1 % loss", far},
		{"50 ms, 0.1 % loss", Shape{Delay: 25 * time.Millisecond, Loss: 0.001, Rate: 1e9, MaxQueue: 50 * time.Millisecond}},
		{"50 ms, no loss", Shape{Delay: 25 * time.Millisecond, Rate: 1e9, MaxQueue: 50 * time.Millisecond}},
		{"100 ms, 0.1 % loss", Shape{Delay: 50 * time.Millisecond, Loss: 0.001, Rate: 1e9, MaxQueue: 50 * time.Millisecond}},
	}
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv("NETEM_ROUNDS")); err == nil && n > 0 {
		rounds = n
	}
	for range b.N {
		for _, s := range shapes {
			for _, x := range transports {
				if only := os.Getenv("NETEM_ONLY"); only != "" && only != s.name {
					continue
				}
				b.Run(s.name+"/"+x.name, func(b *testing.B) {
					l := newLink(b, s.s, x.congestion)
					for _, d := range directions {
						var v []float64
						for range rounds {
							speed, _ := l.measure(b, x.p.load(d.kind, opBytes, depth, 2*time.Second, 4*time.Second))
							v = append(v, speed)
						}
						b.ReportMetric(median(v)/1e6, d.name+"-MB/s")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
