package topology

import (
	"strconv"
	"strings"
)

// nodes lists the NUMA nodes. A kernel without NUMA has one, as far as memory goes.
func (l *look) nodes() []Node {
	const base = "sys/devices/system/node"
	var out []Node
	for _, name := range l.list(base) {
		digits, is := strings.CutPrefix(name, "node")
		id, err := strconv.Atoi(digits)
		if !is || err != nil || id > maxNode || strconv.Itoa(id) != digits {
			continue
		}
		dir := base + "/" + name
		if !l.exists(dir) {
			continue
		}
		out = append(out, Node{
			ID: id, CPUs: l.text(dir + "/cpulist"), Memory: l.total(dir + "/meminfo"),
			Distances: l.distances(dir + "/distance"),
		})
	}
	if len(out) == 0 {
		return []Node{{CPUs: l.text("sys/devices/system/cpu/online"), Memory: l.total("proc/meminfo")}}
	}
	return out
}

// total returns the bytes of memory of a meminfo file. Only that line of it is noted.
func (l *look) total(name string) uint64 {
	name, ok := l.real(name)
	if !ok {
		return 0
	}
	text, _ := l.raw(name)
	for line := range strings.SplitSeq(text, "\n") {
		_, rest, found := strings.Cut(line, "MemTotal:")
		f := strings.Fields(rest)
		if !found || len(f) == 0 {
			continue
		}
		kib, err := strconv.ParseUint(f[0], 10, 50)
		if err != nil {
			return 0
		}
		l.notes.File(name, "MemTotal: "+f[0]+" kB\n")
		return kib << 10
	}
	return 0
}

func (l *look) distances(name string) []int {
	var out []int
	for _, f := range strings.Fields(l.text(name)) {
		d, err := strconv.Atoi(f)
		if err != nil || d < 0 || d > 255 {
			l.warn("%s: %.40q is not a distance", name, f)
			return nil
		}
		out = append(out, d)
	}
	return out
}
