package memory

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Room is what the control group with the least room around the process can still take, in bytes.
type Room struct {
	// Group is its folder, empty where no group has a limit or it cannot be read.
	Group string
	// Limit is its limit and Used what is charged to it, of which the kernel frees Cache, pages of
	// files, before it ends a process.
	Limit, Used, Cache uint64
}

// Left is how much more the group can take.
func (r Room) Left() uint64 {
	used := r.Used - min(r.Cache, r.Used)
	return r.Limit - min(used, r.Limit)
}

// ReadRoom reads the room from a file system rooted at "/"; nil means the machine's.
func ReadRoom(root fs.FS) Room {
	root = rootOr(root)
	self, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return Room{}
	}
	var tightest Room
	eachGroup(self, "memory", func(two bool, dir string) {
		files, prefix := [2]string{"memory.limit_in_bytes", "memory.usage_in_bytes"}, "total_"
		if two {
			files, prefix = [2]string{"memory.max", "memory.current"}, ""
		}
		limit, limited := readNumber(root, path.Join(dir, files[0]))
		used, known := readNumber(root, path.Join(dir, files[1]))
		if !limited || !known || limit == noLimit {
			return
		}
		r := Room{Group: "/" + dir, Limit: limit, Used: used, Cache: readCache(root, path.Join(dir, "memory.stat"), prefix)}
		if tightest.Group == "" || r.Left() < tightest.Left() {
			tightest = r
		}
	})
	return tightest
}

// readCache adds up the pages of files in memory.stat, which count as used.
func readCache(root fs.FS, name, prefix string) (sum uint64) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key != prefix+"inactive_file" && key != prefix+"active_file" {
			continue
		}
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && n < noLimit-sum {
			sum += n
		}
	}
	return sum
}

// pledges are the memory of this process that is mapped to be filled later. The kernel charges a page
// when it is touched first.
var pledges struct {
	mu   sync.Mutex
	open map[*pledge]struct{}
}

// pledge is memory that is to be filled later.
type pledge struct {
	size   uint64
	mapped bool
	fd     int // once mapped; below 0 for private memory
}

// promise reserves memory that is to be filled later, or reports that the control group has no room
// for it and for what was promised before. kept memory is never refused: it is that of a process
// before, and may be filled already.
func promise(root fs.FS, size uint64, kept bool) (*pledge, error) {
	pledges.mu.Lock()
	defer pledges.mu.Unlock()
	open := uint64(0)
	for p := range pledges.open {
		open += p.untouched()
	}
	if r := ReadRoom(root); !kept && r.Group != "" && (size > r.Left() || open > r.Left()-size) {
		s := &Shortage{Kind: "memory", Need: size, Have: r.Left() - min(open, r.Left()), text: fmt.Sprintf(
			"%s (%d bytes) were asked for, but the control group %s has room for %s: its limit is %s, %s are used, of which %s are cached files that can go, "+
				"and %s were promised to memory of this process that is not filled yet",
			Human(size), size, r.Group, Human(r.Left()-min(open, r.Left())), Human(r.Limit), Human(r.Used), Human(r.Cache), Human(open))}
		return nil, s.error("ask for less, end what uses the memory, or raise the memory limit of the container or service")
	}
	p := &pledge{size: size, fd: -1, mapped: kept}
	if pledges.open == nil {
		pledges.open = map[*pledge]struct{}{}
	}
	pledges.open[p] = struct{}{}
	return p, nil
}

// at says that the memory is mapped, over a descriptor that stays open until end. p may be nil.
func (p *pledge) at(fd int) {
	if p == nil {
		return
	}
	pledges.mu.Lock()
	defer pledges.mu.Unlock()
	p.mapped, p.fd = true, fd
}

// end says that there will be no memory any more. p may be nil.
func (p *pledge) end() {
	pledges.mu.Lock()
	defer pledges.mu.Unlock()
	delete(pledges.open, p)
}

// untouched is how much of the memory has no pages yet. It is 0 where that is not known: for private
// memory, of which the kernel does not tell. pledges.mu is held.
func (p *pledge) untouched() uint64 {
	if !p.mapped {
		return p.size
	}
	var st unix.Stat_t
	if p.fd < 0 || unix.Fstat(p.fd, &st) != nil {
		return 0
	}
	return p.size - min(uint64(st.Blocks)*512, p.size)
}
