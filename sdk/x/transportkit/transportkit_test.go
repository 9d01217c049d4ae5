package transportkit

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestAdvertised(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4zero, Port: 77}
	for _, c := range []struct {
		host string
		adv  []string
		want []string
	}{
		{"10.1.2.3", nil, []string{"10.1.2.3:77"}},
		{"::1", nil, []string{"[::1]:77"}},
		{"", []string{"a.example", "b.example:9", "fe80::1", "[fe80::2]", "[fe80::3]:8"}, []string{"a.example:77", "b.example:9", "[fe80::1]:77", "[fe80::2]:77", "[fe80::3]:8"}},
	} {
		got, err := Addresses{Host: c.host, Advertise: c.adv}.Advertised("op", at)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, host := range []string{"", "0.0.0.0", "::"} {
		got, err := Addresses{Host: host}.Advertised("op", at)
		require.NoError(t, err)
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), MaxAddresses)
	}
	_, err := Addresses{Advertise: []string{"a b"}}.Advertised("transport/x: start", at)
	require.ErrorContains(t, err, `transport/x: start: address "a b" for peers`)
}

func TestAddressesValidate(t *testing.T) {
	require.NoError(t, Addresses{Port: 1, PortMax: 2, Advertise: []string{"h", "h:1"}}.Validate())
	for want, a := range map[string]Addresses{
		"port_max is 1":       {PortMax: 1},
		"port_max is 5":       {Port: 6, PortMax: 5},
		`advertise ""`:        {Advertise: []string{""}},
		`advertise "a b"`:     {Advertise: []string{"a b"}},
		`advertise "h:99999"`: {Advertise: []string{"h:99999"}},
	} {
		require.ErrorContains(t, a.Validate(), want)
	}
}

func TestListenSkipsUsedPorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, text, _ := net.SplitHostPort(taken.Addr().String())
	port, _ := strconv.Atoi(text)
	a := Addresses{Host: "127.0.0.1", Port: port}
	_, err = a.Listen(t.Context(), "transport/x: start", net.ListenConfig{})
	require.ErrorContains(t, err, "transport/x: start")
	require.ErrorContains(t, err, "port_max", "the error says what to do")
	a.PortMax = min(port+50, 65535)
	ln, err := a.Listen(t.Context(), "transport/x: start", net.ListenConfig{})
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	c, err := Addresses{Host: "127.0.0.1"}.ListenUDP(t.Context(), "op")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// TestAccept: a failed accept does not end the loop; the end of the listener does.
func TestAccept(t *testing.T) {
	results := []error{nil, errors.New("too many open files"), nil, net.ErrClosed}
	handled := 0
	Accept(func() (int, error) {
		err := results[0]
		results = results[1:]
		return 1, err
	}, slog.New(slog.DiscardHandler), func(n int) { handled += n })
	require.Equal(t, 2, handled)
}

func TestLifecycle(t *testing.T) {
	var mu sync.Mutex
	var l Lifecycle
	l.Init(&mu, "transport/x")
	locked := func(f func() bool) bool {
		mu.Lock()
		defer mu.Unlock()
		return f()
	}
	broken := errors.New("broken")
	require.ErrorIs(t, l.Start(func() error { return broken }), broken)
	require.True(t, locked(l.New), "a failed start may be repeated")
	require.Error(t, l.Require("op"))
	run := func() error {
		mu.Lock()
		defer mu.Unlock()
		l.Run()
		return nil
	}
	require.NoError(t, l.Start(run))
	require.True(t, locked(l.Running))
	require.NoError(t, l.Require("op"))
	require.ErrorContains(t, l.Start(run), "started or stopped before")

	freeing, free := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() { first <- l.Stop(t.Context(), func() error { close(freeing); <-free; return broken }) }()
	<-freeing
	require.True(t, locked(l.Stopping))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Stop(ctx, nil), context.DeadlineExceeded)
	close(free)
	require.ErrorIs(t, <-first, broken)
	require.ErrorIs(t, l.Stop(t.Context(), nil), broken)

	var unused Lifecycle
	unused.Init(&mu, "transport/x")
	require.NoError(t, unused.Stop(t.Context(), nil))
	require.NoError(t, unused.Stop(t.Context(), nil))
	require.Error(t, unused.Start(run))
}

func TestRefusal(t *testing.T) {
	type reason uint8
	table := []Refusal{1: Busy}
	require.Equal(t, Busy, RefusalOf(table, reason(1), errs.ClassUnknown))
	for _, r := range []reason{0, 2, 255} {
		got := RefusalOf(table, r, errs.ClassTransientPath)
		require.Equal(t, errs.ClassTransientPath, got.Class)
		require.Contains(t, got.Label, "reason-")
	}
	err := Busy.As(5, 99).Error("op")
	require.Equal(t, errs.TransferFail, errs.CodeOf(err))
	require.Equal(t, errs.ClassUnknown, errs.ClassOf(err))
	require.NotZero(t, Incarnation())
}

// TestRedial: operations wait for a peer that may come, and fail where waiting is of no use.
func TestRedial(t *testing.T) {
	now := time.Now()
	failed := errors.New("refused")
	judge := func(r *Redial, absent, heard bool, means string, after time.Duration, working bool) error {
		f := DialFailure{Absent: true, Means: means}
		f.Add("a:1", failed, absent, heard)
		return r.Judge(&f, now, now.Add(after), working)
	}
	fresh := func() *Redial {
		r := new(Redial)
		r.Init("path", time.Second, "look at the network")
		return r
	}
	r := fresh()
	require.NoError(t, judge(r, false, false, "", 0, false), "the peer may come")
	require.ErrorIs(t, r.Last, failed)
	err := judge(r, false, false, "", time.Second, false)
	require.ErrorContains(t, err, "the peer cannot be reached")
	require.ErrorContains(t, err, "look at the network")
	require.ErrorIs(t, err, r.Down)
	require.NoError(t, judge(r, false, true, "", time.Second, false), "something answered")
	require.NoError(t, r.Down)
	require.NoError(t, judge(fresh(), true, false, "", 0, true), "another connection works")
	require.ErrorContains(t, judge(fresh(), true, false, "", 0, false), "the peer is not there")
	require.ErrorContains(t, judge(fresh(), false, true, "the peer was restarted", 0, false), "the peer was restarted")

	r = fresh()
	for want := leastPause; want < mostPause; want *= 2 {
		r.Failed(failed, now)
		pause := r.NotBefore.Sub(now)
		require.GreaterOrEqual(t, pause, want/2)
		require.Less(t, pause, want)
	}
	r.Connected()
	r.Answered()
	require.NoError(t, r.Last)
	r.Failed(failed, now)
	require.Less(t, r.NotBefore.Sub(now), leastPause)
}
