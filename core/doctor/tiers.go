package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// slowDisk is the speed below which a disk is called slow, in bytes per second.
const slowDisk = 200e6

// fileTier is the tier plugin that this package knows.
const fileTier = "file"

// findings are several things that one check has found.
type findings struct{ Result }

// add takes one more finding. The worst status counts.
func (f *findings) add(s Status, why, do string) {
	if s == Fail || f.Status == OK {
		f.Status = s
	}
	if f.Why != "" {
		f.Why, f.Do = f.Why+"; ", f.Do+"; "
	}
	f.Why, f.Do = f.Why+why, f.Do+do
}

// tiered reports whether the node is to have storage tiers.
func (e *exam) tiered() bool { return e.node() && e.cfg.Store.EnableOffload }

// tierFolders returns the folders of storage tiers that can be looked at.
func (e *exam) tierFolders() []string {
	if !e.tiered() || e.cfg.Store.Tier != fileTier {
		return nil
	}
	return e.cfg.Store.SSDOffloadPath
}

// tierSetting returns a setting of the plugin file, nil if it is not set.
func (e *exam) tierSetting(name string) any {
	return e.cfg.Plugins.Get(plugin.ID{Kind: plugin.KindTier, Name: fileTier}).Config[name]
}

// tiers looks at what all storage tiers share: memory, io_uring, huge pages, and whether they are on different disks.
func (e *exam) tiers(context.Context) Result {
	s := e.cfg.Store
	if s.Tier != fileTier {
		r := &findings{ok("tier/%s, which is not looked at", s.Tier)}
		state := s.TierState
		if state == "" && len(s.SSDOffloadPath) > 0 {
			state = s.SSDOffloadPath[0]
		}
		if why, do := e.badFolder(state); why != "" {
			r.add(Fail, "the node does not start: "+why, do+", or name another one in store.tier_state")
		}
		return r.Result
	}
	r := &findings{ok("%s, %s to read and write them", count(len(s.SSDOffloadPath), "folder"), memory.Human(uint64(s.OffloadBufferSize)))}
	if s.GlobalSegmentSize == 0 {
		r.add(Warn, "a node without memory has nothing to keep, and opens no storage tier", "set store.global_segment_size")
	}
	e.ring(r)
	huge := chosen(e.text("sys/kernel/mm/transparent_hugepage/enabled"))
	if huge != "" {
		r.Found += "; transparent huge pages: " + huge
	}
	if huge == "never" || huge == "" {
		r.add(Warn, "values are copied through small pages, which a disk takes in many more requests", "run as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	}
	e.apart(r)
	return r.Result
}

// ring says whether this process has io_uring.
func (e *exam) ring(r *findings) {
	how, _ := e.tierSetting("io").(string)
	if how == "pread" || e.Ring == nil {
		r.Found += "; io_uring is not asked for"
		return
	}
	err := e.Ring()
	if err == nil {
		r.Found += "; io_uring works"
		return
	}
	r.Found += "; no io_uring (" + err.Error() + ")"
	do := "permit io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile of the container"
	if off, known := e.number("proc/sys/kernel/io_uring_disabled"); known && off > 0 {
		do = fmt.Sprintf("kernel.io_uring_disabled is %d; run as root: sysctl -w kernel.io_uring_disabled=0", off)
	}
	const quiet = ", or set plugins.tier.file.config.io to pread"
	if how == "io_uring" {
		r.add(Fail, "plugins.tier.file.config.io asks for it, so the node does not start", do+quiet)
	} else {
		r.add(Warn, "threads read and write instead, which is slower when many reads come at once", do+quiet)
	}
}

// apart looks for folders that share a file system.
func (e *exam) apart(r *findings) {
	on := map[uint64]string{}
	for _, path := range e.cfg.Store.SSDOffloadPath {
		info, err := fs.Stat(e.Root, strings.TrimPrefix(path, "/"))
		if err != nil {
			continue // The check of the folder says so.
		}
		st, is := info.Sys().(*syscall.Stat_t)
		if !is {
			continue
		}
		if first, twice := on[st.Dev]; twice {
			r.add(Warn, fmt.Sprintf("%s and %s are on one file system: two tiers there share its speed, and fail together", first, path),
				"name one folder for each disk in store.ssd_offload_path")
			return
		}
		on[st.Dev] = path
	}
}

// badFolder says why the node would refuse a folder, and what to do; empty if it would not.
func (e *exam) badFolder(path string) (why, do string) {
	const make = "make the folder, on the disk that is to keep objects, and give it to this process's user: "
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Sprintf("%q is no absolute path without . and ..", path), "name an absolute path"
	}
	info, err := fs.Lstat(e.Root, strings.TrimPrefix(path, "/"))
	switch {
	case err != nil:
		return cause(err), make + "mkdir -p " + path
	case info.Mode()&fs.ModeSymlink != 0:
		return path + " is a symbolic link", "name the folder to which it leads: readlink -f " + path
	case !info.IsDir():
		return path + " is no folder", "name a folder"
	}
	return "", ""
}

// tierFolder looks at one folder of store.ssd_offload_path.
func (e *exam) tierFolder(ctx context.Context, path string) Result {
	if why, do := e.badFolder(path); why != "" {
		return fail(path, "the node does not start: "+why, do)
	}
	if e.Disk == nil {
		return ok("%s is not looked at", path)
	}
	d, err := e.Disk(ctx, path)
	if err != nil {
		return fail(path, "the node cannot keep objects there: "+err.Error(), fmt.Sprintf("give the folder to the user of the node: chown -R %d %s; if it is, look at the disk and at dmesg", e.UID, path))
	}
	r := &findings{ok("%s: %s, %s free", path, d.FileSystem, memory.Human(d.Free))}
	e.judgeSpace(r, path, d)
	judgeDisk(r, d)
	return r.Result
}

// judgeSpace compares what is free with what a new tier takes.
func (e *exam) judgeSpace(r *findings, path string, d Disk) {
	if e.exists(strings.TrimPrefix(path, "/") + "/mooncake-tier") {
		r.Found += ", with a tier of an earlier process"
		return
	}
	s := e.cfg.Store
	size := uint64(s.OffloadSizeLimit)
	if given, _ := e.tierSetting("capacity_bytes").(int64); size == 0 && given > 0 {
		size = uint64(given)
	}
	switch {
	case size > d.Free:
		r.add(Warn, fmt.Sprintf("the tier is to have %s: it gets what there is, and the file system is full then", memory.Human(size)), "free space, or lower store.offload_size_limit")
	case size == 0 && d.Free < uint64(s.GlobalSegmentSize):
		r.add(Warn, fmt.Sprintf("the tier is smaller than the memory of the node (%s), so it keeps little that memory does not", memory.Human(uint64(s.GlobalSegmentSize))),
			"name a folder on a larger disk in store.ssd_offload_path")
	}
}

// judgeDisk says what a disk can do and what it is no good for.
func judgeDisk(r *findings, d Disk) {
	switch {
	case d.Memory:
		r.add(Warn, d.FileSystem+" is memory: the tier takes it from the machine, and is empty after a reboot", "name a folder on a disk in store.ssd_offload_path")
	case d.Remote:
		r.add(Warn, d.FileSystem+" is a file system of another machine or program: reads of the tier stop when it does", "name a folder on a local disk in store.ssd_offload_path")
	case d.Layer:
		r.add(Warn, "the folder is a part of the container, and goes with it", "mount a volume of the host there")
	}
	if d.NotDirect != nil {
		r.Found += ", no O_DIRECT"
		r.add(Warn, "the page cache has a copy of what is read and written, and speeds were not measured: O_DIRECT: "+d.NotDirect.Error(), "name a folder on ext4 or xfs in store.ssd_offload_path")
		return
	}
	r.Found += ", O_DIRECT"
	if d.Write == 0 || d.Read == 0 {
		r.Found += ", speed not measured"
		return
	}
	r.Found += fmt.Sprintf(", writes %s, reads %s", speed(d.Write), speed(d.Read))
	if d.Write < slowDisk || d.Read < slowDisk {
		r.add(Warn, "a disk this slow saves only a part of what is put, and a read may take longer than to compute the pages again",
			"measure for longer with 'mooncake bench tier --path DIR', and use a faster disk")
	}
}

func speed(bytesPerSecond float64) string { return fmt.Sprintf("%.2f GB/s", bytesPerSecond/1e9) }
