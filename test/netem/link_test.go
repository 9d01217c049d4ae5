package netem

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// link is two namespaces and what is between them.
type link struct {
	ends [2]*namespace
	// by says what carries the packets: "tc" or "the emulator".
	by  string
	emu *Emulator
}

// newLink makes a link of the given shape. It skips the test where this machine or its
// user cannot have one. congestion is TCP's control: "cubic", "bbr".
func newLink(t testing.TB, s Shape, congestion string) *link {
	t.Helper()
	l := &link{}
	for i := range 2 {
		ns, err := newNamespace()
		if err != nil {
			t.Skipf("no network namespace, which needs CAP_SYS_ADMIN, CAP_NET_ADMIN and ip: %v", err)
		}
		l.ends[i] = ns
		t.Cleanup(func() { ns.file.Close() })
	}
	if why := l.veth(s); why == nil {
		l.by = "tc"
	} else {
		if err := l.tuns(t, s); err != nil {
			t.Skipf("no link: neither tc netem (%v) nor a TUN device, which needs CAP_NET_ADMIN and /dev/net/tun: %v", why, err)
		}
		l.by = "the emulator"
		t.Logf("the kernel has no netem: %v; the link is the emulator", why)
	}
	for i, ns := range l.ends {
		// By the route: a namespace may not change the default.
		err := ns.do(func() error {
			return run("ip", "route", "replace", "10.88.0.0/24", "dev", "far", "src", address[i], "congctl", congestion)
		})
		if err != nil {
			t.Skipf("TCP congestion control %s: %v", congestion, err)
		}
	}
	return l
}

// veth joins the namespaces by a pair of devices with netem on both.
func (l *link) veth(s Shape) error {
	if os.Getenv("NETEM_EMULATE") != "" {
		return errors.New("not wanted: NETEM_EMULATE is set")
	}
	return l.ends[0].do(func() error {
		// The other end is named by a descriptor of this process.
		other := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), l.ends[1].file.Fd())
		if err := run("ip", "link", "add", "far", "type", "veth", "peer", "name", "far", "netns", other); err != nil {
			return err
		}
		up := func(addr string) error {
			for _, args := range s.disciplines() {
				if err := run("tc", append([]string{"qdisc", "add", "dev", "far"}, args...)...); err != nil {
					return err
				}
			}
			// netem takes what the segmentation offload makes of many packets for one.
			_ = run("ethtool", "-K", "far", "tso", "off", "gso", "off", "gro", "off")
			_ = run("ip", "link", "set", "far", "gso_max_segs", "1")
			return errors.Join(run("ip", "address", "add", addr+"/24", "dev", "far"), run("ip", "link", "set", "far", "up"))
		}
		if err := up(address[0]); err != nil {
			return errors.Join(err, run("ip", "link", "delete", "far"))
		}
		return l.ends[1].do(func() error { return up(address[1]) })
	})
}

// disciplines are the arguments of tc for one direction of the link: netem for what time and chance
// do, which few kernels of containers have, and a token bucket for the rate, which they all have.
func (s Shape) disciplines() [][]string {
	var out [][]string
	place := []string{"root"}
	if s.Delay > 0 || s.Loss > 0 {
		args := []string{"root", "handle", "1:", "netem", "limit", "100000", "delay", fmt.Sprintf("%dus", s.Delay.Microseconds())}
		if s.Loss > 0 {
			args = append(args, "loss", fmt.Sprintf("%g%%", s.Loss*100))
		}
		out = append(out, args)
		place = []string{"parent", "1:1", "handle", "10:"}
	}
	if s.Rate > 0 {
		// A burst of 4 ms: a processor that others use does not run the timer of each packet in time.
		burst := max(int(s.Rate/8*0.004), 3*1600)
		out = append(out, append(place, "tbf", "rate", fmt.Sprintf("%.0fbit", s.Rate), "burst", strconv.Itoa(burst),
			"latency", fmt.Sprintf("%dus", s.MaxQueue.Microseconds())))
	}
	return out
}

// received is how many bytes the interface at one end has received, headers included.
func (l *link) received(end int) (int64, error) {
	var n int64
	err := l.ends[end].do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/dev") // /sys shows the namespace that mounted it.
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if name, rest, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "far" {
				n, err = strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				return err
			}
		}
		return errors.New("the namespace has no interface far")
	})
	return n, err
}

// settle waits until nothing arrives any more at either end, or a limit, and returns what both have
// received.
func (l *link) settle(limit time.Duration) (last [2]int64, err error) {
	begin := time.Now()
	for quiet := 0; quiet < 3; {
		var now [2]int64
		for end := range now {
			if now[end], err = l.received(end); err != nil {
				return now, err
			}
		}
		// Keep-alives and heartbeats are no load.
		if now[0]-last[0]+now[1]-last[1] < 20_000 {
			quiet++
		} else {
			quiet = 0
		}
		last = now
		if time.Since(begin) > limit {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return last, nil
}

func (l *link) tuns(t testing.TB, s Shape) error {
	var ends [2]*os.File
	for i, ns := range l.ends {
		f, err := ns.tun(address[i])
		if err != nil {
			return errors.Join(err, ends[0].Close())
		}
		ends[i] = f
	}
	l.emu = Carry(ends[0], ends[1], s)
	t.Cleanup(func() { _ = l.emu.Close() })
	return nil
}

// figures says what the emulator did, empty for the kernel's link.
func (l *link) figures() string {
	if l.emu == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d packets, %d dropped by chance, %d by a full queue", l.emu.Sent.Load(), l.emu.Dropped.Load(), l.emu.Overflowed.Load())
	return b.String()
}
