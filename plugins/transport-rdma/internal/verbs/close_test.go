//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

type closer interface{ Close() error }

// everything makes all kinds of objects, and returns those it made when it fails.
func everything(r *rig, mem []byte) (made []closer, err error) {
	for i := range 2 {
		c, err := r.lib.OpenDevice(r.names[i])
		if err != nil {
			return made, err
		}
		made = append(made, c)
		if _, err = c.QueryPort(1); err != nil {
			return made, err
		}
		if _, err = c.GIDs(1); err != nil {
			return made, err
		}
		pd, err := c.AllocPD()
		if err != nil {
			return made, err
		}
		made = append(made, pd)
		mr, err := pd.RegMR(mem, all)
		if err != nil {
			return made, err
		}
		cq, err := c.CreateCQ(64, 1)
		if err != nil {
			return append(made, mr), err
		}
		made = append(made, mr, cq)
		for range 2 {
			qp, err := pd.CreateQP(cq, verbs.QPConfig{Depth: 16})
			if err != nil {
				return made, err
			}
			made = append(made, qp)
			if err = ready(c, qp, r.gid); err != nil {
				return made, err
			}
		}
	}
	return made, nil
}

// ready connects a QP to itself.
func ready(c *verbs.Context, qp *verbs.QP, index int) error {
	gid, err := c.GID(1, index)
	if err != nil {
		return err
	}
	s := &side{gid: index}
	if err = qp.ToInit(verbs.InitAttr{Port: 1, Access: all}); err == nil {
		err = qp.ToRTR(rtr(s, qp.Num(), gid.GID, 1024))
	}
	if err == nil {
		err = qp.ToRTS(rts)
	}
	if err == nil {
		_, err = qp.Query()
	}
	return err
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(list)
}

// Objects close in any order, more than once, and leave nothing behind.
func TestCloseInAnyOrder(t *testing.T) {
	r := newRig(t)
	mem := mapped(t, 4096)
	fds := 0
	rounds := 300
	if onDevices() {
		rounds = 30
	}
	for round := range rounds {
		made, err := everything(r, mem)
		check(t, err)
		rand.Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
		for i, c := range made {
			if err = c.Close(); err != nil {
				t.Fatalf("%T: %v", c, err)
			}
			if err = made[rand.IntN(i+1)].Close(); err != nil {
				t.Fatalf("again: %v", err)
			}
		}
		if r.w != nil {
			if live := r.w.Live(os.Getpid()); len(live) > 0 {
				t.Fatalf("round %d: still open: %v", round, live)
			}
		}
		// The first round makes what the runtime keeps.
		if n := descriptors(t); round == 0 {
			fds = n
		} else if n != fds {
			t.Fatalf("round %d: %d descriptors, %d after the first", round, n, fds)
		}
	}
}

func TestClosedParentTakesNoChildren(t *testing.T) {
	s := newSide(t, newRig(t), 0, 4096, verbs.QPConfig{})
	for _, c := range []closer{s.c, s.cq, s.pd} {
		check(t, c.Close())
	}
	_, err := s.c.AllocPD()
	wantErr(t, err, verbs.ErrClosed)
	_, err = s.c.CreateCQ(10, 0)
	wantErr(t, err, verbs.ErrClosed)
	_, err = s.c.QueryPort(1)
	wantErr(t, err, verbs.ErrClosed)
	_, err = s.c.GID(1, 0)
	wantErr(t, err, verbs.ErrClosed)
	_, err = s.pd.RegMR(s.mem, all)
	wantErr(t, err, verbs.ErrClosed)
	_, err = s.pd.CreateQP(s.cq, verbs.QPConfig{Depth: 1})
	wantErr(t, err, verbs.ErrClosed)
	// What was there still works: the QP and the MR hold their parents.
	check(t, ready2(s))
}

func ready2(s *side) error { return s.qp.ToInit(verbs.InitAttr{Port: 1, Access: all}) }

// Whichever call fails: the error names it, nothing leaks, and the next attempt works.
func TestEveryCallCanFail(t *testing.T) {
	calls := []string{"ibv_get_device_list", "ibv_open_device", "ibv_query_device", "ibv_query_port", "ibv_query_gid_ex",
		"ibv_query_gid_table", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_comp_channel", "ibv_create_cq", "ibv_create_qp",
		"ibv_query_qp", "ibv_modify_qp/INIT", "ibv_modify_qp/RTR", "ibv_modify_qp/RTS"}
	r := newFake(t, fakeverbs.Config{Devices: 2})
	mem := mapped(t, 4096)
	for _, call := range calls {
		for skip := range 2 {
			rule := r.w.FailCall(call, -1, skip, 1, syscall.EPERM)
			made, err := everything(r, mem)
			var e *verbs.Error
			name := call
			if i := len("ibv_modify_qp"); len(name) > i {
				if name[:i] == "ibv_modify_qp" {
					name = name[:i]
				}
			}
			if !errors.As(err, &e) || e.Call != name || !errors.Is(err, syscall.EPERM) || rule.Hits() != 1 {
				t.Errorf("%s, time %d: got %v", call, skip, err)
			}
			if e.Device == "" {
				t.Errorf("%s: no device in %v", call, err)
			}
			for _, c := range made {
				check(t, c.Close())
			}
			if live := r.w.Live(os.Getpid()); len(live) > 0 {
				t.Fatalf("%s: still open: %v", call, live)
			}
		}
	}
}

// A Close that fails says so, and the next one does what is left.
func TestCloseCanFail(t *testing.T) {
	for _, call := range []string{"ibv_close_device", "ibv_dealloc_pd", "ibv_dereg_mr", "ibv_destroy_cq", "ibv_destroy_comp_channel", "ibv_destroy_qp"} {
		t.Run(call, func(t *testing.T) {
			r := newFake(t, fakeverbs.Config{Devices: 2})
			made, err := everything(r, mapped(t, 4096))
			check(t, err)
			rule := r.w.FailCall(call, -1, 0, 1, syscall.EBUSY)
			failed := 0
			for range 2 {
				for i := len(made) - 1; i >= 0; i-- {
					err := made[i].Close()
					var e *verbs.Error
					if err != nil {
						failed++
						if !errors.As(err, &e) || e.Call != call {
							t.Errorf("%T: %v", made[i], err)
						}
					}
				}
			}
			if rule.Hits() != 1 || failed != 1 {
				t.Errorf("%d calls and %d closes failed", rule.Hits(), failed)
			}
		})
	}
}

// The same when parents are closed first, so that the last child finds the failure of a parent:
// nothing is freed twice.
func TestCloseOfAParentCanFail(t *testing.T) {
	for _, call := range []string{"ibv_close_device", "ibv_dealloc_pd", "ibv_destroy_cq", "ibv_destroy_comp_channel"} {
		t.Run(call, func(t *testing.T) {
			r := newFake(t, fakeverbs.Config{Devices: 2})
			made, err := everything(r, mapped(t, 4096))
			check(t, err)
			rule := r.w.FailCall(call, -1, 0, 1, syscall.EBUSY)
			failed := 0
			for range 3 {
				for i := range made {
					if err := made[i].Close(); err != nil {
						failed++
					}
				}
			}
			if rule.Hits() != 1 || failed != 1 {
				t.Errorf("%d calls and %d closes failed", rule.Hits(), failed)
			}
			for what, calls := range map[string]int{"ibv_dealloc_pd": 2, "ibv_destroy_comp_channel": 2, "ibv_close_device": 2} {
				if what == call {
					calls++
				}
				if got := r.w.Calls(what); got != calls {
					t.Errorf("%d calls of %s, want %d", got, what, calls)
				}
			}
			if live := r.w.Live(os.Getpid()); len(live) > 0 {
				t.Errorf("still open: %v", live)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	err := error(&verbs.Error{Call: "ibv_reg_mr", Errno: syscall.ENOMEM, Device: "mlx5_0", Object: "4096 bytes at 0x1000"})
	if got := err.Error(); got != "verbs: ibv_reg_mr on mlx5_0 (4096 bytes at 0x1000): cannot allocate memory (errno 12)" {
		t.Error(got)
	}
	if got := fmt.Sprint(verbs.Status(12), ", ", verbs.Status(99), ", ", verbs.EventType(18), ", ", verbs.EventType(99)); got != "transport retries exceeded, status 99, GID change, event 99" {
		t.Error(got)
	}
}
