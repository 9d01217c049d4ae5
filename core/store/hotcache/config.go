// Package hotcache keeps the bytes of objects that one process reads often from other nodes.
//
// Memory is divided into blocks of one size; an object takes one, and larger objects are not
// kept. The least recently used object gives way. The cache admits an object once a sketch of
// past reads has seen it often enough, and in the background: a worker reads it again. An entry
// carries the stamp of the object that the master described when it was read, so that a reader that
// asks the master first never gets bytes of a value that was replaced.
package hotcache

import "github.com/mooncake-go/mooncake/sdk/errs"

// Config of a Cache.
type Config struct {
	// Size is the memory for blocks, in bytes. 0 switches the cache off.
	Size uint64
	// BlockSize is the size of a block, in bytes: the largest object that is kept. Default
	// 16 MiB.
	BlockSize uint64
	// Threshold is the number of reads after which an object is admitted. Default 2.
	Threshold int
	// Workers is the number of goroutines that read admitted objects, and Queue bounds the
	// objects that wait for one. Defaults 2 and 1024.
	Workers, Queue int
}

// DefaultConfig returns the defaults, with the cache off.
func DefaultConfig() Config {
	return Config{BlockSize: 16 << 20, Threshold: 2, Workers: 2, Queue: 1024}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	if c.Size == 0 {
		return nil
	}
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "store: hot cache", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case c.BlockSize == 0 || c.BlockSize > c.Size:
		return bad("block size", c.BlockSize, "1 to the size of the cache")
	case c.Threshold < 1 || c.Threshold > 255:
		return bad("threshold", c.Threshold, "1 to 255")
	case c.Workers < 1 || c.Queue < 1:
		return bad("number of workers or their queue", c.Workers, "at least 1")
	}
	return nil
}
