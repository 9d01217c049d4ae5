package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// link puts a store into a network namespace of its own, with two cables: one to the master, which
// stays, and one on which clients reach the store, which can be cut. A cut is silent, as when a switch
// loses its power: no host refuses a connection. The addresses are of the range for measurements
// (RFC 2544).
type link struct {
	holder *cluster.Proc // keeps the namespace
	// master is the address of the master's end of the first cable, store that of the store's end of
	// the second.
	master, store string
	cables        []string // the near ends
}

// newLink makes the namespace and the cables. An error says why this machine cannot have them.
func newLink(ctx context.Context) (*link, error) {
	for _, program := range []string{"ip", "nsenter", "unshare", "sleep"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("a link needs the program %s: %w", program, err)
		}
	}
	holder, err := cluster.Start(cluster.Spec{Name: "namespace", Program: "unshare", Args: []string{"--net", "sleep", "infinity"}, Env: os.Environ()})
	if err != nil {
		return nil, err
	}
	l := &link{holder: holder, master: "198.18.0.1", store: "198.18.0.6"}
	if err := l.wire(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// wire lays the cables.
func (l *link) wire(ctx context.Context) error {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	err = cluster.Poll(l.holder, 5*time.Second, func() error {
		there, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", l.holder.PID()))
		if err == nil && there == own {
			err = errors.New("the namespace is not there yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	pid := strconv.Itoa(l.holder.PID())
	for i, addresses := range [][2]string{{l.master, "198.18.0.2"}, {"198.18.0.5", l.store}} {
		near, far := "mooncake"+strconv.Itoa(i), "store"+strconv.Itoa(i)
		if err := run(ctx, "ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", pid); err != nil {
			return err
		}
		l.cables = append(l.cables, near)
		err := errors.Join(
			run(ctx, "ip", "address", "add", addresses[0]+"/30", "dev", near),
			run(ctx, "ip", "link", "set", near, "up"),
			l.ip(ctx, "address", "add", addresses[1]+"/30", "dev", far),
			l.ip(ctx, "link", "set", far, "up"))
		if err != nil {
			return err
		}
	}
	return l.ip(ctx, "link", "set", "lo", "up")
}

// inside returns what to run to have a program run in the namespace, and its first arguments.
func (l *link) inside(program string) (enter string, args []string) {
	return "nsenter", []string{fmt.Sprintf("--net=/proc/%d/ns/net", l.holder.PID()), program}
}

// ip runs ip in the namespace.
func (l *link) ip(ctx context.Context, args ...string) error {
	program, first := l.inside("ip")
	return run(ctx, program, append(first, args...)...)
}

// cut takes the cable between clients and the store away for a time.
func (l *link) cut(ctx context.Context, d time.Duration) error {
	if err := l.ip(ctx, "link", "set", "store1", "down"); err != nil {
		return err
	}
	pause(ctx, d)
	return l.ip(ctx, "link", "set", "store1", "up")
}

// close takes the cables away, which the kernel does late, and ends the namespace.
func (l *link) close() (err error) {
	for _, cable := range l.cables {
		err = errors.Join(err, run(context.Background(), "ip", "link", "delete", cable))
	}
	l.holder.Kill()
	return err
}

func run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
