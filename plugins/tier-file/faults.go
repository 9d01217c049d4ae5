package file

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// The whole volume is at fault after so many errors within such a time.
const (
	manyFaults = 8
	faultsTime = time.Minute
)

type errBroken string

func (e errBroken) Error() string {
	return string(e) + ", so the volume takes no more writes; check the device and restart"
}

type errOther string

func (e errOther) Error() string {
	return "a header of another " + string(e) + " is at the locator; the record was lost or replaced"
}

type errMemory struct{ want, got uint32 }

func (e errMemory) Error() string {
	return fmt.Sprintf("the memory has the checksum %08x, the record says %08x; the value changed before it was written", e.got, e.want)
}

type errDamaged struct{ lo, hi uint64 }

func (e errDamaged) Error() string {
	return fmt.Sprintf("the bytes from %d to %d are damaged; forget the record", e.lo, e.hi)
}

// fault counts an error of the storage and makes it one of the contract.
func (t *fileTier) fault(o *op, err error) error {
	if o.Kind == tier.Write && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		t.shrink(o.units * record.Page)
		return errs.Wrap(errs.NoAvailableHandle, o.name(), err)
	}
	code := errs.FileReadFail
	if o.Kind == tier.Write {
		code = errs.FileWriteFail
		t.faults.writes++
		o.bad = true
	} else {
		t.faults.reads++
		o.entry.bad = true
	}
	t.count(err)
	class := errs.ClassPermanent
	if t.faults.broken != "" {
		class = errs.ClassLocalDevice
	}
	return &errs.Error{Code: code, Class: class, Op: o.name(), Err: fmt.Errorf("extent %x: %w", o.addr, err)}
}

// count has the volume take no more writes after many errors.
func (t *fileTier) count(err error) {
	now := time.Now()
	recent := t.faults.recent[:0]
	for _, at := range t.faults.recent {
		if now.Sub(at) < faultsTime {
			recent = append(recent, at)
		}
	}
	t.faults.recent = append(recent, now)
	if len(t.faults.recent) >= manyFaults {
		t.faults.recent = t.faults.recent[1:]
		t.breaks(fmt.Sprintf("the storage failed %d times within %s, last with: %v", manyFaults, faultsTime, err))
	} else if errors.Is(err, unix.EROFS) {
		t.breaks("the file system is read-only")
	}
}

// breaks has the volume take no more writes.
func (t *fileTier) breaks(why string) {
	if t.faults.broken != "" {
		return
	}
	t.faults.broken = why
	t.degraded(errBroken(why).Error())
}

func (t *fileTier) degraded(why string) {
	t.log.Error(why, "folder", t.dir)
	t.host.Report(plugin.Health{State: plugin.StateDegraded, Reason: why})
}

// shrink has the capacity be what is in use without a write that found the file system full.
func (t *fileTier) shrink(without uint64) {
	if limit := t.reserved() - without; limit < t.limit {
		t.limit = limit
		t.degraded(fmt.Sprintf("the file system is full, so the capacity is %d bytes, of which all are in use", limit))
	}
}
