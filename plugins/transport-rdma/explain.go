package rdma

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// advised makes an error of an advice; causes say where it came from.
func advised(a advice.Advice, causes ...error) error {
	err := errors.New(a.Why)
	if cause := errors.Join(causes...); cause != nil {
		err = fmt.Errorf("%s: %w", a.Why, cause)
	}
	return &errs.Error{Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Hint: a.Do, Err: err}
}

// explainOpen says what to do about a device that cannot be opened.
func explainOpen(err error) error {
	for _, e := range []error{syscall.EACCES, syscall.EPERM, syscall.ENOENT, syscall.ENODEV} {
		if errors.Is(err, e) {
			return advised(advice.NotOpenable(), err)
		}
	}
	return err
}

// explainRegister says what to do about memory that a device did not take.
func (n *node) explainRegister(d *device, size uint64, dmabuf bool, err error) error {
	switch {
	case errors.Is(err, verbs.ErrUnsupported), dmabuf && errors.Is(err, syscall.EOPNOTSUPP), dmabuf && errors.Is(err, syscall.EINVAL):
		return &errs.Error{
			Code: errs.NotSupported, Class: errs.ClassLocalDevice, Err: err,
			Hint: "the kernel (5.12), libibverbs (1.14) or the driver of " + d.name + " cannot register a dma-buf; set gpu_memory to peermem and load nvidia_peermem",
		}
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EPERM):
		if limit := n.pinning(); limit != ^uint64(0) && n.pinned()+size > limit {
			return advised(advice.Memlock(n.pinned()+size, limit), err)
		}
		return advised(advice.MemoryKeys(d.name, len(n.regions.list()), d.attr.MaxMR), err)
	}
	return errs.WithClass(errs.ClassLocalDevice, "", err)
}

// pinned returns how many bytes are registered. Every device pins them, but the limit is
// compared with each.
func (n *node) pinned() (total uint64) {
	for _, r := range n.regions.list() {
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

// deviceError is a failure of this side's device while a connection is made or used. One
// without memory left is told with its limit.
func deviceError(op string, err error) error {
	e := &errs.Error{Code: errs.TransferFail, Class: errs.ClassLocalDevice, Op: op, Err: err}
	switch {
	case errors.Is(err, errJoin):
		e.Class = errs.ClassTransientPath
		e.Hint = "check that both addresses (GID) are of the same kind and routed to each other: ibv_devinfo -v"
	case errors.Is(err, syscall.ENOMEM):
		e.Hint = "the device has no queue pair or memory left, or RLIMIT_MEMLOCK is low: lower max_endpoints, qp_per_endpoint or max_wr, or run with ulimit -l unlimited"
	}
	return e
}

func errStopping(op string) error {
	return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: op, Err: errors.New("the transport is stopping")}
}

func errWithdrawn(op string) error {
	return errs.WithClass(errs.ClassPermanent, op, errs.New(errs.InvalidParams, "", "the local memory was withdrawn while the operation was under way"))
}
