package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// HugePool is what the kernel keeps of one size of huge pages.
type HugePool struct {
	// Page is the size of one page; Default says that vm.nr_hugepages counts this size.
	Page    HugePages
	Default bool
	// Total, Free and Reserved are numbers of pages. Reserved ones count as free and are
	// promised to mappings that have not touched them yet.
	Total, Free, Reserved uint64
	// Surplus pages exist beyond Total at the moment, of Overcommit that the kernel may make.
	Surplus, Overcommit uint64
	// Limit is what the tightest control group allows, in bytes, where Limited says that one
	// does. A container that was not given huge pages often has the limit 0.
	Limit   uint64
	Limited bool
}

// Available returns the number of pages that a new mapping can get without the kernel
// having to find more.
func (p HugePool) Available() uint64 {
	if p.Reserved > p.Free {
		return 0
	}
	return p.Free - p.Reserved
}

// Reserve returns the command that makes total pages of this size.
func (p HugePool) Reserve(total uint64) string {
	if p.Default {
		return fmt.Sprintf("sysctl -w vm.nr_hugepages=%d", total)
	}
	return fmt.Sprintf("echo %d > /%s/nr_hugepages", total, poolDir("", p.Page))
}

// poolDir is the folder of a pool: the machine's, or with a node's folder that node's.
func poolDir(node string, page HugePages) string {
	return path.Join(hugeRoot(node), fmt.Sprintf("hugepages-%dkB", uint64(page)>>10))
}

func hugeRoot(node string) string {
	if node == "" {
		return "sys/kernel/mm/hugepages"
	}
	return path.Join(node, "hugepages")
}

// ReadHugePool reads the pool of one page size from a file system rooted at "/".
// fs.ErrNotExist where the kernel has no pages of this size.
func ReadHugePool(root fs.FS, page HugePages) (HugePool, error) {
	p := HugePool{Page: page}
	dir := poolDir("", page)
	var err error
	if p.Total, err = readUint(root, path.Join(dir, "nr_hugepages")); err != nil {
		return p, err
	}
	if p.Free, err = readUint(root, path.Join(dir, "free_hugepages")); err != nil {
		return p, err
	}
	// Older kernels lack some of these; 0 is what they mean then.
	p.Reserved, _ = readUint(root, path.Join(dir, "resv_hugepages"))
	p.Surplus, _ = readUint(root, path.Join(dir, "surplus_hugepages"))
	p.Overcommit, _ = readUint(root, path.Join(dir, "nr_overcommit_hugepages"))
	if b, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		p.Default = parseMeminfo(b, "Hugepagesize") == uint64(page)
	}
	if n := hugeLimit(root, page); n != noLimit {
		p.Limit, p.Limited = n, true
	}
	return p, nil
}

// ReadHugePools reads the pools of the page sizes that a block can have and the kernel has.
func ReadHugePools(root fs.FS) []HugePool {
	var out []HugePool
	for _, page := range []HugePages{Huge2M, Huge1G} {
		if p, err := ReadHugePool(root, page); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// hugeLimit is the smallest limit on huge pages of the control groups around this process.
func hugeLimit(root fs.FS, page HugePages) uint64 {
	self, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return noLimit
	}
	prefix := "hugetlb." + page.String()
	best := groupLimit(root, self, "hugetlb", prefix+".max", prefix+".limit_in_bytes")
	return min(best, groupLimit(root, self, "hugetlb", prefix+".rsvd.max", prefix+".rsvd.limit_in_bytes"))
}

// checkHuge reports too few huge pages before the kernel does so with a bare ENOMEM, or,
// for the limit of a control group, with a SIGBUS when the pages are touched.
func checkHuge(root fs.FS, page HugePages, size uint64) error {
	if page == HugeNone {
		return nil
	}
	p, err := ReadHugePool(root, page)
	if errors.Is(err, fs.ErrNotExist) {
		s := &Shortage{Kind: "huge pages of " + page.String(), Need: size, text: fmt.Sprintf("this machine has no huge pages of %s", page)}
		return s.error(fmt.Sprintf("turn huge pages off or boot with hugepagesz=%s", strings.TrimSuffix(page.String(), "B")))
	}
	if err != nil {
		return &fs.PathError{Op: "read", Path: poolDir("", page), Err: err}
	}
	return p.Check(size)
}

// Check reports a pool that cannot back size bytes, code InvalidParams with a Shortage.
func (p HugePool) Check(size uint64) error {
	page := uint64(p.Page)
	need, have := (size+page-1)/page, p.Available()
	more := p.Overcommit - min(p.Overcommit, p.Surplus) // Pages the kernel may still make.
	if need > have+more {
		missing := need - have - more
		s := &Shortage{
			Kind: "huge pages of " + p.Page.String(), Need: need * page, Have: have * page, Run: p.Reserve(p.Total + missing),
			text: fmt.Sprintf("%d huge pages of %s are needed, %d are free, %d more are missing (%s)", need, p.Page, have, missing, Human(missing*page)),
		}
		return s.error("turn huge pages off")
	}
	if p.Limited && need*page > p.Limit {
		s := &Shortage{
			Kind: "huge pages of " + p.Page.String(), Need: need * page, Have: p.Limit,
			text: fmt.Sprintf("%s of huge pages of %s are needed, but the control group of this process allows %s", Human(need*page), p.Page, Human(p.Limit)),
		}
		return s.error(fmt.Sprintf("raise the limit hugepages-%s of the container, ask for less, or turn huge pages off", strings.TrimSuffix(p.Page.String(), "B")+"i"))
	}
	return nil
}

func readUint(root fs.FS, file string) (uint64, error) {
	b, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}
