package memory

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// explain says what to do about memory that a device did not take.
func (g *Registry) explain(d *device.Device, size uint64, dmabuf bool, err error) error {
	switch {
	case errors.Is(err, verbs.ErrUnsupported), dmabuf && errors.Is(err, syscall.EOPNOTSUPP), dmabuf && errors.Is(err, syscall.EINVAL):
		return &errs.Error{
			Code: errs.NotSupported, Class: errs.ClassLocalDevice, Err: err,
			Hint: "the kernel (5.12), libibverbs (1.14) or the driver of " + d.Name + " cannot register a dma-buf; set gpu_memory to peermem and load nvidia_peermem",
		}
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EPERM):
		if limit := g.PinLimit(); limit != ^uint64(0) && g.pinned()+size > limit {
			return device.Advised(advice.Memlock(g.pinned()+size, limit), err)
		}
		return device.Advised(advice.MemoryKeys(d.Name, len(g.List()), d.Attr.MaxMR), err)
	}
	return errs.WithClass(errs.ClassLocalDevice, "", err)
}

// pinned returns how many bytes are registered. Every device pins them, but the limit is
// compared with each.
func (g *Registry) pinned() (total uint64) {
	for _, r := range g.List() {
		total += uint64(len(r.mem))
	}
	return total
}

// pinLimit returns RLIMIT_MEMLOCK in bytes, the largest number where it does not bind.
func pinLimit() uint64 {
	const capIPCLock = 14
	if text, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(text)) {
			if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
				if caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64); err == nil && caps&(1<<capIPCLock) != 0 {
					return ^uint64(0)
				}
			}
		}
	}
	const rlimitMemlock = 8
	var l syscall.Rlimit
	if err := syscall.Getrlimit(rlimitMemlock, &l); err != nil {
		return ^uint64(0)
	}
	return l.Cur
}
