package memory

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

// HugePages is the size of the pages of a block, in bytes.
type HugePages uint64

// The page sizes. HugeNone means the machine's ordinary pages.
const (
	HugeNone HugePages = 0
	Huge2M   HugePages = 2 << 20
	Huge1G   HugePages = 1 << 30
)

// ParseHugePages reads "" or "off", "2MB" and "1GB", in any case.
func ParseHugePages(s string) (HugePages, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "off", "none":
		return HugeNone, nil
	case "2mb", "2m", "2mib":
		return Huge2M, nil
	case "1gb", "1g", "1gib":
		return Huge1G, nil
	}
	return HugeNone, fmt.Errorf("huge page size %q is not one of off, 2MB, 1GB", s)
}

// String returns the form that ParseHugePages reads.
func (h HugePages) String() string {
	switch h {
	case Huge2M:
		return "2MB"
	case Huge1G:
		return "1GB"
	default:
		return "off"
	}
}

// Options of Allocate. The zero value asks for lazily touched ordinary pages.
type Options struct {
	// Name shows up in /proc/<pid>/maps; "mooncake" when empty.
	Name string
	// Location is where the memory lives, as transports understand it; "cpu:0" by
	// convention. When empty it is the node of Placement, "*" (unknown) without one.
	Location string
	// Placement is the NUMA nodes the pages come from. Where the system forbids it, Bind
	// fails and the others are dropped with a warning.
	Placement Placement
	// HugePages backs the block by reserved huge pages, or Allocate fails. They are set
	// aside at Allocate; with Placement Bind they are touched as well, since a node that has
	// too few would otherwise end the process with SIGBUS later.
	HugePages HugePages
	// Prefault touches every page before Allocate returns.
	Prefault bool
	// Promise says that all of the memory will be filled in the course of time: Allocate refuses what
	// the control group has no room for, beside other such blocks of this process. Memory in huge
	// pages is not charged to a control group.
	Promise bool
	// Guard keeps the address range reserved and inaccessible after Close, so that a use
	// after Close faults at the culprit instead of reaching what is mapped there next. It
	// costs address space, not memory.
	Guard bool
	// File is what the block maps in place of a memfd of its own: an empty file, which becomes as large as
	// the block, or one of its size, whose content stays. HugePages must be the size of its pages. Allocate
	// provides all pages of a file that is no memfd. The caller still owns the descriptor.
	File *os.File
	// At is the address that the block shall have, 0 for any. Where the address is in use, or does not
	// exist on this machine, the kernel chooses another.
	At uint64
	// Root is the file system that limits are read from, the machine's own when nil.
	Root fs.FS
	// Log takes the warning of a Placement that was dropped; nil discards it.
	Log *slog.Logger
}

// touches reports whether Allocate has to provide the pages itself.
func (o Options) touches() bool {
	return o.Prefault || o.HugePages != HugeNone && o.Placement.Policy == Bind
}
