package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// The protocol between a store and a keeper: a unixpacket socket, JSON in each message, at most one
// descriptor with it. The store sends a request and the keeper an answer, in turn. The first request is
// hello.
const (
	opHello = "hello" // Name is the owner
	opNames = "names" // the answer has one name; the store asks on with After until there is none
	opTake  = "take"
	opKeep  = "keep"
	opDrop  = "drop"
)

// request is what a store asks.
type request struct {
	Op    string `json:"op"`
	Name  string `json:"name,omitempty"`
	After string `json:"after,omitempty"`
	// Kept makes hello fail with ErrNotKept where nothing is kept for the owner.
	Kept bool `json:"kept,omitempty"`
}

// answer is what a keeper says.
type answer struct {
	Name  string `json:"name,omitempty"`
	Error string `json:"error,omitempty"`
	// Kind names the error among those of this package, if it is one.
	Kind string `json:"kind,omitempty"`
}

var kinds = map[string]error{"not kept": ErrNotKept, "taken": ErrTaken, "full": ErrFull}

// failed is the answer that carries err.
func failed(err error) answer {
	for kind, sentinel := range kinds {
		if errors.Is(err, sentinel) {
			return answer{Error: err.Error(), Kind: kind}
		}
	}
	return answer{Error: err.Error()}
}

// err is the error that an answer carries.
func (a *answer) err() error {
	switch sentinel := kinds[a.Kind]; {
	case a.Error == "":
		return nil
	case sentinel != nil:
		return &remote{a.Error, sentinel}
	default:
		return errors.New(a.Error)
	}
}

// remote is an error of a keeper that is one of this package's.
type remote struct {
	text string
	is   error
}

func (r *remote) Error() string { return r.text }
func (r *remote) Unwrap() error { return r.is }

// send sends a message with at most one descriptor.
func send(c *net.UnixConn, v any, f *os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var oob []byte
	if f != nil {
		oob = unix.UnixRights(int(f.Fd()))
	}
	_, _, err = c.WriteMsgUnix(b, oob, nil)
	return err
}

// receive reads a message with at most one descriptor, which is the caller's to close.
func receive(c *net.UnixConn, v any) (*os.File, error) {
	b := make([]byte, shm.MaxMessage)
	n, fds, err := shm.ReadMsg(c, b, 1)
	if err != nil {
		return nil, err
	}
	var f *os.File
	if len(fds) == 1 {
		f = os.NewFile(uintptr(fds[0]), "kept memory")
	}
	if err := json.Unmarshal(b[:n], v); err != nil {
		closeFile(f)
		return nil, fmt.Errorf("a message that is no JSON: %w", err)
	}
	return f, nil
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close() // A copy of a descriptor has nothing to flush.
	}
}

// own returns an error if the process at the other end belongs to another user than this one and root.
func own(c syscall.Conn) error {
	cred, err := peerOf(c)
	if err == nil && cred.Uid != uint32(os.Geteuid()) && cred.Uid != 0 {
		err = fmt.Errorf("process %d belongs to user %d, not to this user or root", cred.Pid, cred.Uid)
	}
	return err
}

// peerOf returns the process at the other end.
func peerOf(c syscall.Conn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return cred, got
}
