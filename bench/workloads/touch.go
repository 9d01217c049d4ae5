package workloads

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// What is measured has up to three pools of 2 GiB, and what moves to and from them.
const (
	touched = 8 << 30
	piece   = 256 << 20
)

// TouchMemory writes to as much memory as the workloads need, up to half of what is free, and gives
// it back. A virtual machine gets its memory from its host with the first touch of each page, at a
// tenth of the speed of what is measured; a put into such pages would measure the host.
func TouchMemory(ctx context.Context) error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fmt.Errorf("free memory: %w", err)
	}
	want := min(touched, info.Freeram*uint64(info.Unit)/2)
	var all [][]byte
	defer func() {
		for _, b := range all {
			_ = unix.Munmap(b)
		}
	}()
	for done := uint64(0); done+piece <= want && ctx.Err() == nil; done += piece {
		b, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
		if err != nil {
			return nil //nolint:nilerr // There is less than it looked like. What was touched was.
		}
		all = append(all, b)
	}
	return ctx.Err()
}
