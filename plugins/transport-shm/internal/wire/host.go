package wire

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// HostID tells apart the places between which abstract sockets reach: a boot of a kernel,
// and a network namespace of it. Machines that were cloned while running share it; that the
// socket is not there tells them apart when they dial.
type HostID struct {
	Boot  [16]byte
	NetNS uint64
}

// ThisHost asks the kernel.
func ThisHost() (HostID, error) {
	const op = "transport/shm: find out which host this is"
	var h HostID
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return h, errs.WithHint(errs.Wrap(errs.NotSupported, op, err), "the transport needs Linux and /proc")
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(raw) != len(h.Boot) {
		return h, errs.Wrap(errs.NotSupported, op, fmt.Errorf("boot_id is %q", text))
	}
	copy(h.Boot[:], raw)
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		return h, errs.WithHint(errs.Wrap(errs.NotSupported, op, err), "the transport needs Linux and /proc")
	}
	h.NetNS = st.Ino
	return h, nil
}
