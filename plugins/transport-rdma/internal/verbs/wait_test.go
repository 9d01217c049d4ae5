//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// No completion is missed, whether it comes before or after the queue is armed.
func TestWaitMissesNothing(t *testing.T) {
	a, b := pair(t, newRig(t), 4096, verbs.QPConfig{})
	buf := make([]verbs.Result, 8)
	for i := range 1000 {
		n, err := a.qp.Post([]verbs.WR{wr(verbs.OpWrite, a, b, uint64(i), i, 8)})
		check(t, err)
		if n != 1 {
			t.Fatal("not accepted")
		}
		time.Sleep(time.Duration(i%3) * 20 * time.Microsecond)
		got, err := a.cq.Wait(limited(t), buf)
		check(t, err)
		if got != 1 || buf[0].ID != uint64(i) || buf[0].Status != 0 {
			t.Fatalf("round %d: %+v", i, buf[:got])
		}
	}
}

func TestWaitEnds(t *testing.T) {
	s := newSide(t, newRig(t), 0, 4096, verbs.QPConfig{})
	buf := make([]verbs.Result, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	wait := func() {
		err := verbs.ErrBusy
		for errors.Is(err, verbs.ErrBusy) { // the loop below got in first
			_, err = s.cq.Wait(ctx, buf)
		}
		done <- err
	}
	go wait()
	for { // until the other one waits
		over, stop := context.WithCancel(context.Background())
		stop()
		_, err := s.cq.Wait(over, make([]verbs.Result, 1))
		if errors.Is(err, verbs.ErrBusy) {
			break
		}
		wantErr(t, err, context.Canceled)
	}
	s.cq.Wake() // goes back to sleep
	cancel()
	wantErr(t, <-done, context.Canceled)

	ctx = context.Background()
	go wait()
	check(t, s.qp.Close())
	check(t, s.cq.Close())
	wantErr(t, <-done, verbs.ErrClosed)
	_, err := s.cq.Wait(ctx, buf)
	wantErr(t, err, verbs.ErrClosed)
	_, err = s.cq.Poll(buf)
	wantErr(t, err, verbs.ErrClosed)
	s.cq.Wake()
}

// setPort takes the port of a device of the rig down or up.
func setPort(t *testing.T, r *rig, device int, up bool) {
	t.Helper()
	if r.w != nil {
		r.w.SetPort(device, up)
		return
	}
	state := map[bool]string{true: "up", false: "down"}[up]
	iface := []string{"rdma0", "rdma1"}[device]
	if out, err := exec.Command("ip", "link", "set", iface, state).CombinedOutput(); err != nil {
		t.Fatalf("ip link: %v: %s", err, out)
	}
}

// expect waits for one kind of event; devices send others too.
func expect(t *testing.T, c *verbs.Context, want verbs.EventType) verbs.Event {
	t.Helper()
	for {
		ev, err := c.NextEvent(limited(t))
		if err != nil {
			t.Fatalf("waiting for %s: %v", want, err)
		}
		if ev.Type == want {
			return ev
		}
	}
}

func TestPortEvents(t *testing.T) {
	r := newRig(t)
	c, err := r.lib.OpenDevice(r.names[1])
	check(t, err)
	closing(t, c)
	setPort(t, r, 1, false)
	if ev := expect(t, c, verbs.EventPortError); ev.Port != 1 || ev.QP != 0 {
		t.Errorf("the event is %+v", ev)
	}
	p, err := c.QueryPort(1)
	check(t, err)
	if p.Active {
		t.Error("the port is still active")
	}
	setPort(t, r, 1, true)
	expect(t, c, verbs.EventPortActive)
	p, err = c.QueryPort(1)
	check(t, err)
	if !p.Active {
		t.Errorf("the port is %+v", p)
	}
}

func TestEvents(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 2})
	s := newSide(t, r, 0, 4096, verbs.QPConfig{Tag: 77})
	other := newSide(t, r, 1, 4096, verbs.QPConfig{})
	r.w.Event(1, fakeverbs.EventDeviceFatal, 0) // not this device's
	for typ, want := range map[int]verbs.Event{
		fakeverbs.EventDeviceFatal: {Type: verbs.EventDeviceFatal},
		fakeverbs.EventPortActive:  {Type: verbs.EventPortActive, Port: 1},
		fakeverbs.EventPortError:   {Type: verbs.EventPortError, Port: 1},
		fakeverbs.EventLIDChange:   {Type: verbs.EventLIDChange, Port: 1},
		fakeverbs.EventGIDChange:   {Type: verbs.EventGIDChange, Port: 1},
		fakeverbs.EventCQError:     {Type: verbs.EventCQError},
	} {
		r.w.Event(0, typ, 0)
		got, err := s.c.NextEvent(limited(t))
		check(t, err)
		if got != want {
			t.Errorf("got %+v (%s), want %+v", got, got.Type, want)
		}
	}
	for _, typ := range []int{fakeverbs.EventQPAccess, fakeverbs.EventQPFatal} {
		r.w.Event(0, typ, s.qp.Num())
		got, err := s.c.NextEvent(limited(t))
		check(t, err)
		if got != (verbs.Event{Type: verbs.EventType(typ), QP: s.qp.Num(), Tag: 77}) {
			t.Errorf("got %+v", got)
		}
	}
	// No goroutine fetched this event: closing the QP does not wait for that.
	r.w.Event(1, fakeverbs.EventQPFatal, other.qp.Num())
	check(t, other.qp.Close())
}

func TestNextEventEnds(t *testing.T) {
	r := newRig(t)
	c, err := r.lib.OpenDevice(r.names[0])
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	next := func() { _, err := c.NextEvent(ctx); done <- err }
	go next()
	cancel()
	wantErr(t, <-done, context.Canceled)
	ctx = context.Background()
	go next()
	check(t, c.Close())
	wantErr(t, <-done, verbs.ErrClosed)
	_, err = c.NextEvent(ctx)
	wantErr(t, err, verbs.ErrClosed)
	check(t, c.Close())
}

// An event channel that fails is reported, not waited for.
func TestBrokenChannels(t *testing.T) {
	r := newFake(t, fakeverbs.Config{Devices: 1})
	s := newSide(t, r, 0, 4096, verbs.QPConfig{})
	var e *verbs.Error
	for call, wait := range map[string]func() error{
		"ibv_get_async_event": func() error { _, err := s.c.NextEvent(limited(t)); return err },
		"ibv_get_cq_event":    func() error { _, err := s.cq.Wait(limited(t), make([]verbs.Result, 1)); return err },
		"ibv_req_notify_cq":   func() error { _, err := s.cq.Wait(limited(t), make([]verbs.Result, 1)); return err },
		"ibv_poll_cq":         func() error { _, err := s.cq.Poll(make([]verbs.Result, 1)); return err },
	} {
		rule := r.w.FailCall(call, -1, 0, 1000, 5)
		if err := wait(); !errors.As(err, &e) || e.Call != call || e.Errno != 5 {
			t.Errorf("%s: got %v", call, err)
		}
		rule.Cancel()
	}
}
