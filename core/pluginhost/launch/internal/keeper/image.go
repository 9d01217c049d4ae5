package keeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNotHere says that there is no keeper for this architecture.
var ErrNotHere = errors.New("there is no keeper for " + runtime.GOARCH)

const (
	// base is the address at which the file is mapped: header, data and instructions together.
	base = 0x10000000
	// dataAt is the offset of the data in the file. The instructions use the same number.
	dataAt = 0xb0
	// codeAt is the offset of the instructions in the file.
	codeAt = 0x180
	// maxCode bounds the instructions, in bytes.
	maxCode = 4 << 10
	// grace is how many seconds a plugin has to exit after its host died.
	grace = 2
)

// data is the data that the instructions read at fixed offsets.
type data struct {
	Report  int32    // 0: the descriptor for reports
	Self    int32    // 4: the descriptor of the keeper's own program
	All     uint64   // 8: every signal
	Awaited uint64   // 16: the signals that it waits for
	Grace   [4]int64 // 24: a struct itimerval
	Pause   [2]int64 // 56: a struct timespec, between two checks for processes that are left
	Default [32]byte // 72: a struct sigaction, SIG_DFL
	Name    [16]byte // 104: its name in lists of processes
	List    [32]byte // 120: the file that lists its children
	Steps   uint64   // 152: the address of the steps
	End     uint64   // 160: behind the last step
}

const listed = "/proc/thread-self/children\x00"

// Step is a system call that the plugin's process makes before it runs the plugin's program.
type Step struct {
	Number uint64
	Args   [6]uint64
}

// Place puts bytes into the keeper's memory, which cannot be written, and returns their address.
type Place func(content []byte) (address uint64)

// StepShift is where the number of the step that failed, counted from 1, begins in a report; the error number is
// below.
const StepShift = 12

// Image returns the keeper's program. Its arguments are the path of the plugin's program and
// the plugin's own arguments. Its environment is the plugin's. It writes the plugin's number to
// the descriptor report, as 4 bytes in native byte order, and closes it. If the plugin's program
// cannot be run, it also writes a negative error number, before or after the plugin's number.
// self is the descriptor from which the keeper's program is run. The plugin inherits neither.
//
// steps, nil for none, returns the system calls that the plugin's process makes first, in this order. If one of them
// fails the program is not run, and the error number has the number of the step, see StepShift.
func Image(report, self int, steps func(Place) []Step) ([]byte, error) {
	code := instructions()
	if code == nil {
		return nil, ErrNotHere
	}
	d := data{
		Report: int32(report), Self: int32(self), All: ^uint64(0), //nolint:gosec // Descriptors.
		Awaited: bit(unix.SIGCHLD) | bit(unix.SIGTERM) | bit(unix.SIGQUIT) | bit(unix.SIGALRM),
		Grace:   [4]int64{2: grace}, Pause: [2]int64{1: 1e6},
	}
	copy(d.Name[:], "mooncake-keeper")
	copy(d.List[:], listed)
	var tail bytes.Buffer // behind the code
	place := func(content []byte) uint64 {
		tail.Write(make([]byte, -(codeAt+len(code)+tail.Len())&7))
		at := base + codeAt + len(code) + tail.Len()
		tail.Write(content)
		return uint64(at) //nolint:gosec // An address of this program.
	}
	if steps != nil {
		var list bytes.Buffer
		put(&list, steps(place))
		d.Steps = place(list.Bytes())
		d.End = d.Steps + uint64(list.Len()) //nolint:gosec // A length.
	}
	var b bytes.Buffer
	header(&b, codeAt+len(code)+tail.Len())
	b.Write(make([]byte, dataAt-b.Len()))
	put(&b, d)
	b.Write(make([]byte, codeAt-b.Len()))
	b.Write(code)
	b.Write(tail.Bytes())
	return b.Bytes(), nil
}

func bit(s syscall.Signal) uint64 { return 1 << (s - 1) }

// header writes the header of an ELF file with one segment that is readable and executable.
func header(b *bytes.Buffer, size int) {
	const head, entry = 64, 56
	type ident struct {
		Magic                   [4]byte
		Class, Order, Version   byte
		Rest                    [9]byte
		Type, Machine           uint16
		Version2                uint32
		Entry, Segments, Tables uint64
		Flags                   uint32
		HeadSize, SegmentSize   uint16
		SegmentCount            uint16
		TableSize, TableCount   uint16
		Names                   uint16
	}
	type segment struct {
		Type, Flags                             uint32
		Offset, Addr, Physical, File, Mem, Unit uint64
	}
	const load, stack, read, write, run = 1, 0x6474e551, 4, 2, 1
	put(b, ident{
		Magic: [4]byte{0x7f, 'E', 'L', 'F'}, Class: 2, Order: 1, Version: 1, Type: 2, Machine: machine, Version2: 1,
		Entry: base + codeAt, Segments: head, HeadSize: head, SegmentSize: entry, SegmentCount: 2, TableSize: 64,
	})
	put(b, segment{Type: load, Flags: read | run, Addr: base, Physical: base, File: uint64(size), Mem: uint64(size), Unit: 0x10000}) //nolint:gosec // A few KiB.
	put(b, segment{Type: stack, Flags: read | write, Unit: 16})
}

func put(b *bytes.Buffer, v any) {
	_ = binary.Write(b, binary.LittleEndian, v) // A Buffer takes everything.
}

// clip returns the instructions that begin at p, up to mark.
func clip(p unsafe.Pointer) []byte {
	text := unsafe.Slice((*byte)(p), maxCode)
	for i := 0; i+8 <= maxCode; i += 4 {
		if binary.LittleEndian.Uint64(text[i:i+8]) == mark {
			return bytes.Clone(text[:i])
		}
	}
	return nil
}
