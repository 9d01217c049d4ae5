package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// diskTime is the most that reading and writing take together, and diskShare the part of a check's time.
	diskTime, diskShare = 2 * time.Second, 0.6
	// diskFile is the most that a trial file has, diskBlock the size of a read or write, both in bytes; diskDepth are in progress.
	diskFile, diskBlock, diskDepth = 256 << 20, 1 << 20, 8
	// diskPage is the size of the first write.
	diskPage = 4 << 10
)

// Disk is what a folder for a storage tier lies on.
type Disk struct {
	// FileSystem is its kind, such as ext4. Memory says that it has no disk, Remote that another machine or program has it, and
	// Layer that it goes with the container.
	FileSystem            string
	Memory, Remote, Layer bool
	// Device tells file systems apart.
	Device uint64
	// Free is what is left there, in bytes.
	Free uint64
	// NotDirect is why files cannot be read and written with O_DIRECT, nil if they can.
	NotDirect error
	// Write and Read are bytes per second, 0 for what was not measured.
	Write, Read float64
}

// fileSystems are the names of file systems by their numbers in linux/magic.h.
var fileSystems = map[int64]Disk{
	unix.EXT4_SUPER_MAGIC: {FileSystem: "ext4"}, unix.XFS_SUPER_MAGIC: {FileSystem: "xfs"}, unix.BTRFS_SUPER_MAGIC: {FileSystem: "btrfs"},
	unix.F2FS_SUPER_MAGIC: {FileSystem: "f2fs"}, 0x2fc12fc1: {FileSystem: "zfs"},
	unix.TMPFS_MAGIC: {FileSystem: "tmpfs", Memory: true}, unix.RAMFS_MAGIC: {FileSystem: "ramfs", Memory: true}, unix.HUGETLBFS_MAGIC: {FileSystem: "hugetlbfs", Memory: true},
	unix.OVERLAYFS_SUPER_MAGIC: {FileSystem: "overlayfs", Layer: true},
	unix.NFS_SUPER_MAGIC:       {FileSystem: "nfs", Remote: true}, unix.SMB2_SUPER_MAGIC: {FileSystem: "smb", Remote: true}, unix.CIFS_SUPER_MAGIC: {FileSystem: "cifs", Remote: true},
	unix.FUSE_SUPER_MAGIC: {FileSystem: "fuse", Remote: true}, 0xc36400: {FileSystem: "ceph", Remote: true}, 0x0bd00bd0: {FileSystem: "lustre", Remote: true},
}

// tryDisk looks at a folder. It writes and reads a file there that has no name any more, so that nothing stays behind
// whatever happens. An error says that it could make no file.
func tryDisk(ctx context.Context, path string) (Disk, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Disk{}, fmt.Errorf("statfs: %w", err)
	}
	d, known := fileSystems[int64(uint32(fs.Type))]
	if !known {
		d.FileSystem = fmt.Sprintf("file system %#x", uint32(fs.Type))
	}
	d.Free = fs.Bavail * uint64(fs.Bsize)
	f, err := os.CreateTemp(path, ".mooncake-doctor-*")
	if err != nil {
		return d, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return d, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return d, fmt.Errorf("fstat: %w", err)
	}
	d.Device = st.Dev
	t := trial{fd: int(f.Fd()), blocks: int64(min(diskFile, d.Free/4) / diskBlock)}
	if t.mem, err = unix.Mmap(-1, 0, diskDepth*diskBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return d, fmt.Errorf("mmap: %w", err)
	}
	defer func() { _ = unix.Munmap(t.mem) }() // The goroutines have ended.
	_, _ = rand.Read(t.mem)                   // It never fails. Devices compress zeros.
	if d.NotDirect = t.direct(); d.NotDirect != nil || t.blocks < diskDepth {
		return d, nil // The page cache would answer.
	}
	_ = unix.Fallocate(t.fd, 0, 0, t.blocks*diskBlock) // As the tier does, where it works.
	span := diskTime
	if end, ok := ctx.Deadline(); ok {
		span = min(span, time.Duration(float64(time.Until(end))*diskShare))
	}
	if d.Write, err = t.rate(ctx, span/2, true); err != nil {
		return d, err
	}
	d.Read, err = t.rate(ctx, span/2, false)
	return d, err
}

// trial reads and writes a file.
type trial struct {
	fd      int
	mem     []byte // diskDepth blocks
	blocks  int64  // that the file may have
	written int64  // that it has
}

// direct makes the file one of O_DIRECT. Some file systems refuse only at the first write.
func (t *trial) direct() error {
	flags, err := unix.FcntlInt(uintptr(t.fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(t.fd), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	if err == nil {
		_, err = unix.Pwrite(t.fd, t.mem[:diskPage], 0)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil // The free space says so.
	}
	return err
}

// rate reads or writes blocks, several at a time, and returns bytes per second.
func (t *trial) rate(ctx context.Context, span time.Duration, write bool) (float64, error) {
	move, blocks := unix.Pread, t.written
	if write {
		move, blocks = unix.Pwrite, t.blocks
	}
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make([]error, diskDepth)
	start := time.Now()
	for i := range failed {
		block := t.mem[i*diskBlock:][:diskBlock]
		all.Go(func() {
			for failed[i] == nil && time.Since(start) < span && ctx.Err() == nil {
				at := (next.Add(1) - 1) % blocks
				n, err := move(t.fd, block, at*diskBlock)
				if err == nil && n < diskBlock {
					err = unix.EIO
				}
				failed[i] = err
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	for _, err := range failed {
		if err != nil {
			return 0, fmt.Errorf("a trial of reading and writing failed: %w", err)
		}
	}
	if write {
		t.written = min(next.Load(), t.blocks)
	}
	if next.Load() == 0 || t.written == 0 {
		return 0, nil
	}
	return float64(next.Load()) * diskBlock / took.Seconds(), nil
}

// tryRing opens an io_uring and closes it. The error says why this process has none.
func tryRing() error {
	const entries = 8
	var params [30]uint32 // struct io_uring_params of linux/io_uring.h
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, entries, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return fmt.Errorf("io_uring_setup: %w", errno)
	}
	return unix.Close(int(fd))
}
