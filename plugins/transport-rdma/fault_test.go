package rdma

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// fakes returns configurations for a world that can fail, with one queue pair for each
// connection so that the order of work is known. What a connection waits for when it ends
// comes, or does not: a busy machine must not make the one look like the other.
func fakes(t testing.TB, devices int) (func() *Config, *fakeverbs.World) {
	if onDevices() {
		t.Skip("real devices do not fail on demand")
	}
	base, w := library(t, devices)
	return func() *Config {
		c := base()
		c.QPPerEndpoint = 1
		c.FlushTimeout, c.ConfirmTimeout = plugin.Duration(time.Second), plugin.Duration(short)
		c.RailPause = plugin.Duration(100 * time.Millisecond)
		return c
	}, w
}

// TestStatus: how a work request that fails comes back, and that the next one works.
func TestStatus(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	for status, class := range map[verbs.Status]errs.Class{
		verbs.StatusLocalLength: errs.ClassLocalDevice, verbs.StatusLocalProtection: errs.ClassLocalDevice,
		verbs.StatusLocalAccess: errs.ClassLocalDevice, verbs.StatusLocalQPOperation: errs.ClassLocalDevice,
		verbs.StatusFatal: errs.ClassLocalDevice, verbs.StatusGeneral: errs.ClassLocalDevice,
		verbs.StatusRemoteAccess: errs.ClassTransientPeer, verbs.StatusRemoteInvalid: errs.ClassTransientPeer,
		verbs.StatusRemoteOperation: errs.ClassTransientPeer, verbs.StatusRetryExceeded: errs.ClassTransientPath,
		verbs.StatusRNRRetryExceeded: errs.ClassTransientPath, verbs.StatusResponseTimeout: errs.ClassTransientPath,
		verbs.StatusBadResponse: errs.ClassTransientPath, 22: errs.ClassTransientPath,
	} {
		for _, op := range []transport.Op{c.read(1, 0, 100), c.write(1, 0, 100)} {
			rule := w.Fault(fakeverbs.Fault{Action: fakeverbs.Status, Device: -1, WC: int(status)})
			got := run(t, c.p, op)[1]
			require.Equal(t, 1, rule.Hits())
			require.Equal(t, transport.Failed, got.Status, "%s: the peer tells that its side has ended", status)
			require.Equal(t, class, got.Class(), "%s: %v", status, got.Err)
			require.Contains(t, got.Err.Error(), status.String())
			require.Negative(t, int(errs.CodeOf(got.Err)))
			fine(t, c.p, c.read(2, 0, 100))
		}
	}
}

// TestInnocent: operations that were flushed because of another one's fault are done again.
func TestInnocent(t *testing.T) {
	t.Run("whole", func(t *testing.T) { innocent(t, func(*Config) {}) })
	t.Run("in chunks, not all of them posted", func(t *testing.T) {
		innocent(t, func(c *Config) { c.SliceBytes, c.WindowBytes, c.QPPerEndpoint = 4096, 32<<10, 2 })
	})
}

func innocent(t *testing.T, change func(*Config)) {
	base, w := fakes(t, 1)
	cfg := func() *Config {
		c := base()
		change(c)
		return c
	}
	c := newCouple(t, cfg, 1<<20)
	fill(c.buf, 3)
	fine(t, c.p, c.read(1000, 0, 1)) // Connect first, so that all go out together.
	fill(c.buf, 3)
	const chunk = 16 << 10
	var ops []transport.Op
	for at := 0; at < len(c.buf); at += chunk {
		ops = append(ops, c.write(uint64(at/chunk), at, chunk))
	}
	w.Fault(fakeverbs.Fault{Action: fakeverbs.Status, Device: -1, Skip: 20, WC: int(verbs.StatusRemoteAccess)})
	failed := -1
	for id, r := range run(t, c.p, ops...) {
		if r.Status != transport.OK {
			require.Equal(t, -1, failed, "one alone was at fault: %v", r.Err)
			failed = int(id)
			require.Equal(t, errs.InvalidKey, errs.CodeOf(r.Err))
		}
	}
	require.NotEqual(t, -1, failed)
	fine(t, c.p, ops[failed])
	require.True(t, bytes.Equal(c.buf, c.mem))
	require.Zero(t, c.client.Stats().DialsFailed)
}

// TestBrokenPath: when the peer does not answer, everything in flight fails with a class that
// lets the caller take another rail, and each operation ends once.
func TestBrokenPath(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 1<<20)
	fine(t, c.p, c.read(1000, 0, 1))
	var ops []transport.Op
	for i := range 64 {
		ops = append(ops, c.write(uint64(i), i*16<<10, 16<<10))
	}
	w.Fault(fakeverbs.Fault{Action: fakeverbs.Status, Device: -1, Skip: 30, WC: int(verbs.StatusRetryExceeded)})
	got := run(t, c.p, ops...)
	require.Len(t, got, 64)
	bad := 0
	for _, r := range got {
		if r.Status != transport.OK {
			bad++
			require.Equal(t, errs.ClassTransientPath, r.Class(), "%v", r.Err)
		}
	}
	require.Positive(t, bad)
	fine(t, c.p, ops...)
}

// TestLostCompletion: an operation whose completion never comes ends at its deadline, and
// its connection is replaced.
func TestLostCompletion(t *testing.T) {
	cfg, w := fakes(t, 1)
	c := newCouple(t, cfg, 4096)
	fine(t, c.p, c.read(1, 0, 10))
	rule := w.Fault(fakeverbs.Fault{Action: fakeverbs.Drop, Device: -1})
	got := late(t, c.p, rule, c.write(2, 0, 1000))[2]
	require.Equal(t, transport.Failed, got.Status, "%v", got.Err)
	require.Equal(t, errs.ClassTransientPath, got.Class())
	require.Equal(t, errs.RPCTimeout, errs.CodeOf(got.Err))
	fine(t, c.p, c.read(3, 0, 10))
	require.EqualValues(t, 2, c.client.Stats().Dials)
}

// TestStuck: a queue pair that neither works nor flushes is destroyed; what cannot even be
// destroyed leaves its operations in quarantine.
func TestStuck(t *testing.T) {
	for _, destroys := range []bool{true, false} {
		cfg, w := fakes(t, 1)
		c := newCouple(t, cfg, 4096)
		fine(t, c.p, c.read(1, 0, 10))
		rule := w.Fault(fakeverbs.Fault{Action: fakeverbs.Stall, Device: -1})
		if !destroys {
			w.FailCall("ibv_modify_qp/ERR", -1, 0, 1, syscall.EIO)
			w.FailCall("ibv_destroy_qp", -1, 0, 2, syscall.EIO) // Of both sides.
		}
		got := late(t, c.p, rule, c.read(2, 0, 1000))[2]
		want := transport.Failed
		if !destroys {
			want = transport.Quarantined
		}
		require.Equal(t, want, got.Status, "%v", got.Err)
		require.Equal(t, errs.RPCTimeout, errs.CodeOf(got.Err))
		fine(t, c.p, c.read(3, 0, 10))
		w.Release()
	}
}

// TestUnconfirmedWrite: a Write whose connection was lost is in quarantine when the peer
// does not tell that its side has ended.
func TestUnconfirmedWrite(t *testing.T) {
	cfg, w := fakes(t, 2)
	server, client := cfg(), cfg()
	client.Devices, server.Devices = []string{"fake0"}, []string{"fake1"}
	c := coupleOf(t, server, client, 4096)
	fine(t, c.p, c.read(1, 0, 10))
	w.FailCall("ibv_destroy_qp", 1, 0, 1, syscall.EIO)
	w.Fault(fakeverbs.Fault{Action: fakeverbs.Half, Device: -1, WC: int(verbs.StatusRetryExceeded)})
	got := run(t, c.p, c.write(2, 0, 1000))[2]
	require.Equal(t, transport.Quarantined, got.Status, "%v", got.Err)
	fine(t, c.p, c.write(3, 0, 1000))
}

// TestNoQueuePair: failures while a connection is made come back with a class, and do not
// last.
func TestNoQueuePair(t *testing.T) {
	for call, class := range map[string]errs.Class{
		"ibv_create_qp": errs.ClassLocalDevice, "ibv_modify_qp/INIT": errs.ClassLocalDevice,
		"ibv_modify_qp/RTR": errs.ClassTransientPath, "ibv_modify_qp/RTS": errs.ClassTransientPath,
	} {
		for skip := range 2 { // This side's, the peer's.
			cfg, w := fakes(t, 1)
			c := newCouple(t, cfg, 4096)
			rule := w.FailCall(call, -1, skip, 1, syscall.ENOMEM)
			got := run(t, c.p, c.read(1, 0, 10))[1]
			require.Equal(t, 1, rule.Hits())
			require.Equal(t, transport.Failed, got.Status)
			if skip == 1 && class == errs.ClassLocalDevice {
				require.Equal(t, errs.ClassTransientPeer, got.Class(), "%s: %v", call, got.Err)
			} else {
				require.Equal(t, class, got.Class(), "%s: %v", call, got.Err)
			}
			eventually(t, "the pause ends", func() bool { return c.p.Rails()[0].Up })
			fine(t, c.p, c.read(2, 0, 10))
		}
	}
}

// TestStrangeCompletions: completions that are doubled, out of order or of no request never
// end an operation twice, or let one hang.
func TestStrangeCompletions(t *testing.T) {
	for _, action := range []fakeverbs.Action{
		fakeverbs.Duplicate, fakeverbs.Reorder, fakeverbs.Garble, fakeverbs.Drop, fakeverbs.Half, fakeverbs.Delay,
	} {
		cfg, w := fakes(t, 1)
		c := newCouple(t, cfg, 1<<20)
		fine(t, c.p, c.read(1000, 0, 1))
		fill(c.buf, 8)
		var ops []transport.Op
		for i := range 64 {
			ops = append(ops, c.write(uint64(i), i*16<<10, 16<<10))
		}
		timely := func(ops []transport.Op) map[uint64]transport.Completion {
			for i := range ops {
				ops[i].Deadline = time.Now().Add(time.Second)
			}
			return run(t, c.p, ops...)
		}
		w.Fault(fakeverbs.Fault{Action: action, Device: -1, Skip: 5, Times: 3, WC: int(verbs.StatusGeneral), MS: 5})
		got := timely(ops)
		require.Len(t, got, len(ops), "action %d", action)
		for try := 0; ; try++ { // Three faults are armed in all; a slow machine adds deadlines.
			var again []transport.Op
			for id, r := range got {
				if r.Status != transport.OK {
					again = append(again, ops[id])
				}
			}
			if len(again) == 0 {
				break
			}
			require.Less(t, try, 20, "action %d", action)
			eventually(t, "the pause ends", func() bool { return c.p.Rails()[0].Up })
			got = timely(again)
			require.Len(t, got, len(again), "action %d", action)
		}
		require.True(t, bytes.Equal(c.buf, c.mem), "action %d", action)
	}
}
