package sandbox

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch/internal/keeper"
)

// capabilities adds the calls that drop all capabilities but those in b.keep. A process of root would get back at its
// exec what is left in its bounding set.
func (b *Box) capabilities(p *plan, place keeper.Place) {
	bounding, permitted := own()
	if permitted&(1<<unix.CAP_SETPCAP) != 0 {
		for c := range 64 {
			if bit := uint64(1) << c; bounding&bit != 0 && b.keep&bit == 0 {
				p.add(stepCapabilities, unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uint64(c)) //nolint:gosec // A small number.
			}
		}
	}
	p.add(stepCapabilities, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	var data bytes.Buffer
	for half := range 2 {
		part := uint32(b.keep >> (32 * half)) //nolint:gosec // One half.
		_ = binary.Write(&data, binary.NativeEndian, unix.CapUserData{Effective: part, Permitted: part, Inheritable: part})
	}
	var head bytes.Buffer
	_ = binary.Write(&head, binary.NativeEndian, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	p.add(stepCapabilities, unix.SYS_CAPSET, place(head.Bytes()), place(data.Bytes()))
	if b.keep != 0 { // At its exec a process that is not root's keeps only what is ambient.
		p.add(stepCapabilities, unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_IPC_LOCK)
	}
}

// own returns the bounding set and the permitted capabilities of this process.
func own() (bounding, permitted uint64) {
	text, _ := os.ReadFile("/proc/thread-self/status")
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		switch {
		case err != nil:
		case name == "CapBnd":
			bounding = n
		case name == "CapPrm":
			permitted = n
		}
	}
	return bounding, permitted
}
