//go:build linux && amd64

package steps

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Row is a call to count. Call must not wait for another goroutine, whose thread may stand still.
type Row struct {
	Name   string
	Before func() // prepares a call and does not count; may be nil
	Call   func()
}

const (
	// requests and answers are the descriptors of the child's pipes: exec.Cmd.ExtraFiles begins with 3.
	requests, answers = 3, 4
	// warm is how often Serve makes each call before it counts, to fill pools and caches.
	warm = 64
)

// greeting is the first answer of a child, a line of JSON.
type greeting struct {
	Thread int      `json:"thread"`
	Mark   uint64   `json:"mark"`
	Rows   []string `json:"rows"`
}

// mark is where a count begins and ends.
//
//go:noinline
func mark() {}

// Serve makes the calls of rows when the Process that started this one asks for them, until that closes.
func Serve(rows []Row) error {
	runtime.LockOSThread() // The other process steps through this thread alone.
	defer runtime.UnlockOSThread()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, r := range rows {
		for range warm {
			r.before()
			r.Call()
		}
	}
	hello := greeting{Thread: syscall.Gettid(), Mark: uint64(reflect.ValueOf(mark).Pointer())}
	for _, r := range rows {
		hello.Rows = append(hello.Rows, r.Name)
	}
	if err := json.NewEncoder(os.NewFile(answers, "answers")).Encode(hello); err != nil {
		return err
	}
	for {
		row, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = rows[row].serve()
		}
		if err != nil {
			return err
		}
	}
}

func (r Row) serve() error {
	r.before()
	r.Call() // The messages may have evicted what the call finds in caches.
	r.before()
	runtime.Gosched() // The scheduler asks a goroutine to yield that has run for 10 ms.
	if err := answer(); err != nil {
		return err
	}
	if _, err := receive(); err != nil { // From here on the other threads stand still.
		return err
	}
	mark()
	r.Call()
	mark()
	return answer()
}

func (r Row) before() {
	if r.Before != nil {
		r.Before()
	}
}

// receive and answer bypass the scheduler, which otherwise gives the processor of a thread in a call of the system to
// another thread. If that one stands still, nothing gives it back.
func receive() (row byte, err error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, requests, uintptr(unsafe.Pointer(&row)), 1)
	switch {
	case errno == syscall.EINTR:
		return receive()
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return row, nil
}

func answer() error {
	var b byte
	if _, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, answers, uintptr(unsafe.Pointer(&b)), 1); errno != 0 {
		return errno
	}
	return nil
}
