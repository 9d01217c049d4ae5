package vault

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keeperVault is a keeper, seen from a store.
type keeperVault struct {
	memfds
	path string
	mu   sync.Mutex // one request at a time
	c    *net.UnixConn
}

// callTimeout bounds a call whose context has no end: a keeper that stands still must not hold up a store.
const callTimeout = 5 * time.Second

// Dial connects to the keeper that listens at path (@ and a name for an abstract socket), as the owner of what is
// kept under that name. The keeper must belong to the same user or to root. Dial returns ErrTaken while another
// process is connected as the same owner.
func Dial(ctx context.Context, path, owner string) (Vault, error) {
	return connect(ctx, path, owner, false)
}

// connect is Dial. Where kept is set, it returns ErrNotKept if nothing is kept for the owner.
func connect(ctx context.Context, path, owner string, kept bool) (Vault, error) {
	if err := checkName(owner); err != nil {
		return nil, fmt.Errorf("vault: keeper at %s: owner: %w", path, err)
	}
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := d.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return nil, fmt.Errorf("vault: keeper at %s: %w", path, err)
	}
	v := &keeperVault{path: path, c: c.(*net.UnixConn)}
	if err := own(v.c); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("vault: keeper at %s: %w", path, err)
	}
	if _, _, err := v.call(ctx, &request{Op: opHello, Name: owner, Kept: kept}, nil); err != nil {
		_ = c.Close()
		return nil, err
	}
	return v, nil
}

func (v *keeperVault) String() string { return "keeper at " + v.path }

// call makes one request.
func (v *keeperVault) call(ctx context.Context, q *request, f *os.File) (string, *os.File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	limit := time.Now().Add(callTimeout)
	if by, ok := ctx.Deadline(); ok && by.Before(limit) {
		limit = by
	}
	err := v.c.SetDeadline(limit)
	var a answer
	var got *os.File
	if err == nil {
		err = send(v.c, q, f)
	}
	if err == nil {
		got, err = receive(v.c, &a)
	}
	if err != nil {
		_ = v.c.Close() // An answer that comes later would be taken for one to another request.
		return "", nil, fmt.Errorf("vault: %s: %s %s: %w", v, q.Op, q.Name, err)
	}
	if err := a.err(); err != nil {
		closeFile(got)
		return "", nil, fmt.Errorf("vault: %s: %w", v, err)
	}
	return a.Name, got, nil
}

// Names implements Vault.
func (v *keeperVault) Names(ctx context.Context) ([]string, error) {
	var out []string
	for after := ""; ; {
		next, _, err := v.call(ctx, &request{Op: opNames, After: after}, nil)
		if err != nil || next == "" {
			return out, err
		}
		if next <= after {
			return nil, fmt.Errorf("vault: %s: it answers names that do not ascend", v)
		}
		out, after = append(out, next), next
	}
}

// Take implements Vault.
func (v *keeperVault) Take(ctx context.Context, name string) (*os.File, error) {
	_, f, err := v.call(ctx, &request{Op: opTake, Name: name}, nil)
	if err == nil && f == nil {
		err = fmt.Errorf("vault: %s: no descriptor came with its answer", v)
	}
	return f, err
}

// Keep implements Vault.
func (v *keeperVault) Keep(ctx context.Context, name string, f *os.File) error {
	_, _, err := v.call(ctx, &request{Op: opKeep, Name: name}, f)
	return err
}

// Drop implements Vault.
func (v *keeperVault) Drop(ctx context.Context, name string) error {
	_, _, err := v.call(ctx, &request{Op: opDrop, Name: name}, nil)
	return err
}

// Close implements Vault.
func (v *keeperVault) Close() error { return v.c.Close() }

// duplicate returns a copy of a descriptor that no program started from here inherits.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copying a descriptor: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
