package netem

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// link is two namespaces and what is between them.
type link struct {
	ends [2]*namespace
	// by says what carries the packets: "tc netem" or "the emulator".
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
		l.by = "tc netem"
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
			limit := "100000"
			args := []string{"qdisc", "add", "dev", "far", "root", "netem", "limit", limit, "delay", fmt.Sprintf("%dus", s.Delay.Microseconds())}
			if s.Loss > 0 {
				args = append(args, "loss", fmt.Sprintf("%g%%", s.Loss*100))
			}
			if s.Rate > 0 {
				args = append(args, "rate", fmt.Sprintf("%.0fbit", s.Rate))
			}
			if err := run("tc", args...); err != nil {
				return err
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
